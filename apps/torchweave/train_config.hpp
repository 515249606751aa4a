// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/config.hpp>
#include <tw/train/options.hpp>

namespace tw::tool {

struct ModelOptions {
  std::string name = "lenet";  ///< lenet | mlp
  int64_t width = 256;         ///< of the hidden layers of an mlp
  int64_t hidden_layers = 2;   ///< of an mlp
};

struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd | adam
  double lr = 0.05;
  double momentum = 0.9;  ///< of sgd
  double weight_decay = 0;
};

/// All that `torchweave train` reads from a configuration.
struct TrainConfig {
  train::Options run;
  std::filesystem::path data_directory = "/usr/share/datasets/fashion-mnist";
  ModelOptions model;
  OptimizerOptions optimizer;
};

/// Takes every known key out of `config`. @throws ConfigError with all problems at once.
TrainConfig read_train_config(Config& config);

}  // namespace tw::tool
