// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "train_config.hpp"
#include "train_data.hpp"

#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/data/dataset.hpp>
#include <tw/train/mixed_precision.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/trainer.hpp>

namespace torch::optim {
class Optimizer;
}
namespace tw {
class Environment;
}
namespace tw::layer_parallel {
class IteratedNetwork;
class IterationControl;
}  // namespace tw::layer_parallel

namespace tw::tool {

/// Sets how long ranks wait for each other from now on. Local.
void watch(Environment& mpi, const StallOptions& stall);

/// The objects that a configuration describes.
struct TrainSetup {
  TrainData data;
  std::string unit;  ///< what samples are called
  train::Model model;
  train::Objective objective;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::shared_ptr<layer_parallel::IteratedNetwork> layers;       ///< the model, if its layers or time steps are in parallel
  std::shared_ptr<layer_parallel::IterationControl> iterations;  ///< controls their iterations
  std::string explanation;                                       ///< on rank 0: explanation of the plan of the stages; empty without stages
};

/// The number of ranks with different samples, along `data` and `shard`, and the index of this rank among them. Local.
int sample_ranks(const Mesh& mesh);
int sample_coordinate(const Mesh& mesh);

/// A mesh of the ranks of `comm` with the axes of the configuration, laid out by nodes. Collective.
Mesh make_train_mesh(const TrainConfig& config, const Communicator& comm);

/// Makes model and optimizer. Parameters are drawn from config.run.seed. Collective over the mesh. @param device device of this rank's tensors
/// @throws Error if model and data do not fit together, or if the device does not support the configuration
TrainSetup make_train_setup(TrainConfig& config, const Mesh& mesh, TrainData data, c10::Device device);

/// Collective over the mesh. @param setup borrowed
train::Trainer make_trainer(const TrainConfig& config, TrainSetup& setup, const Mesh& mesh);

}  // namespace tw::tool
