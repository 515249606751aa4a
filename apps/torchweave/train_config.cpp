// SPDX-License-Identifier: Apache-2.0
#include "train_config.hpp"

#include <tw/base/concat.hpp>

namespace tw::tool {

TrainConfig read_train_config(Config& config) {
  TrainConfig read;
  const auto expect = [&](bool condition, const char* key, const char* rule, auto value) {
    if (!condition) config.report(concat(key, " must be ", rule, ", got ", value));
  };
  config.bind("name", read.run.name);
  config.bind("output", read.run.output);
  config.bind("epochs", read.run.epochs);
  config.bind("batch_size", read.run.batch_size);
  config.bind("seed", read.run.seed);
  config.bind("data.directory", read.data_directory);
  config.bind("model.name", read.model.name, {"lenet", "mlp"});
  config.bind("model.width", read.model.width);
  config.bind("model.hidden_layers", read.model.hidden_layers);
  config.bind("optimizer.name", read.optimizer.name, {"sgd", "adam"});
  config.bind("optimizer.lr", read.optimizer.lr);
  config.bind("optimizer.momentum", read.optimizer.momentum);
  config.bind("optimizer.weight_decay", read.optimizer.weight_decay);

  expect(!read.run.name.empty(), "name", "a non-empty string", "\"\"");
  expect(read.run.epochs >= 0, "epochs", "at least 0", read.run.epochs);
  expect(read.run.batch_size > 0, "batch_size", "at least 1", read.run.batch_size);
  expect(read.run.seed >= 0, "seed", "at least 0", read.run.seed);
  expect(read.model.width > 0, "model.width", "at least 1", read.model.width);
  expect(read.model.hidden_layers >= 0, "model.hidden_layers", "at least 0", read.model.hidden_layers);
  expect(read.optimizer.lr > 0, "optimizer.lr", "positive", read.optimizer.lr);
  expect(read.optimizer.momentum >= 0 && read.optimizer.momentum < 1, "optimizer.momentum", "in [0, 1)", read.optimizer.momentum);
  expect(read.optimizer.weight_decay >= 0, "optimizer.weight_decay", "at least 0", read.optimizer.weight_decay);
  config.finish();
  return read;
}

}  // namespace tw::tool
