// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "train_config.hpp"

#include <memory>
#include <tw/data/dataset.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>

namespace torch::optim {
class Optimizer;
}

namespace tw::tool {

/// What a configuration asks for, made.
struct TrainSetup {
  std::unique_ptr<Dataset> train_set;
  std::unique_ptr<Dataset> test_set;
  std::string unit;  ///< what samples are called
  train::Model model;
  train::Objective objective;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// Opens the data and makes model and optimizer. Parameters are drawn from config.run.seed. Local.
/// @throws Error naming the file, or that model and data do not fit.
TrainSetup make_train_setup(TrainConfig& config);

/// Reads all data, runs one batch of every part, and says on `out` what the run would need. Local. @throws Error for what would go wrong.
void rehearse(const TrainConfig& config, const TrainSetup& setup, int ranks, std::ostream& out);

}  // namespace tw::tool
