// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/config.hpp>
#include <tw/base/option.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/recurrent.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/train/options.hpp>
#include <vector>

namespace tw::tool {

struct DataOptions {
  /// mnist: images with labels, in MNIST's layout. regression: train/ and test/ with NPY shards or CSV. adding: the adding problem, which is
  /// generated
  std::string kind = "mnist";
  std::filesystem::path directory = "/usr/share/datasets/fashion-mnist";
  std::string header = "automatic";               ///< regression: whether a CSV's first line names its columns: automatic, present or absent
  int64_t shift = 0;                              ///< mnist: move training images at random by up to this many pixels
  bool flip = false;                              ///< mnist: mirror training images at random
  int64_t train_samples = 0;                      ///< samples used, from the first one on; 0: all, or 10,000 of the adding problem
  int64_t test_samples = 0;                       ///< the same; 0: all, or 1,000 of the adding problem
  std::vector<std::string> validation = {"0.1"};  ///< one text, see validation_of()
  int64_t validation_seed = 0;
  int64_t steps = 1000;  ///< adding: length of a sequence
};
void visit(DataOptions& data, OptionVisitor& visitor);

struct ModelOptions {
  std::string name = "lenet";       ///< one of model_kinds()
  std::string dtype = "float32";    ///< float32 | float64
  std::string device = "cpu";       ///< see device_of_rank()
  int64_t width = 256;              ///< width of the hidden layers (mlp), of the state (gru, lstm) or of a token's embedding (gpt)
  int64_t hidden_layers = 2;        ///< mlp: number of hidden layers
  int64_t blocks = 1;               ///< resnet: blocks per stage; gpt: blocks
  int64_t layers = 64;              ///< residual: number of layers, which can be in parallel along mesh.layer
  int64_t channels = 8;             ///< residual, convnet
  int64_t conv_layers = 2;          ///< convnet
  std::string activation = "relu";  ///< convnet: relu | sigmoid | tanh
  int64_t stacked = 1;              ///< gru, lstm: number of stacked layers
  bool bidirectional = false;       ///< gru, lstm
  int64_t longest_memory = 0;       ///< gru, lstm: see layer_parallel::RecurrentOptions
  int64_t step_inputs = 1;          ///< gru, lstm: numbers of an image per time step
  std::filesystem::path path = "";  ///< torchscript: the file
  int64_t heads = 12;               ///< gpt, which only `plan` supports
  int64_t sequence = 1024;          ///< gpt: tokens
  int64_t vocabulary = 50257;       ///< gpt
};
void visit(ModelOptions& model, OptionVisitor& visitor);

struct OptimizerOptions {
  std::string name = "sgd";  ///< sgd | adam | adamw | rmsprop | adagrad
  double lr = 0.05;
  double momentum = 0.9;  ///< sgd, rmsprop
  bool nesterov = false;  ///< sgd
  double weight_decay = 0;
};
void visit(OptimizerOptions& optimizer, OptionVisitor& visitor);

/// Seconds that a rank waits for others before a warning, and before the job is aborted; see EnvironmentOptions.
struct StallOptions {
  double warning = 60;
  double abort = 600;
};
void visit(StallOptions& stall, OptionVisitor& visitor);

/// Numbers of ranks along each axis.
struct MeshOptions {
  int64_t data = 0;                      ///< ranks with the same elements and different samples; 0: all remaining ranks, or 1 if `shard` is 0
  int64_t shard = 1;                     ///< ranks with different elements and different samples; 0: all remaining ranks
  int64_t layer = 1;                     ///< ranks that hold one model together, with its layers in parallel
  int64_t stage = 1;                     ///< ranks that hold one model together, in stages of a pipeline and their replicas
  std::filesystem::path selection = {};  ///< file of `torchweave bench comm --tune`; empty: backends are selected by price
};
void visit(MeshOptions& mesh, OptionVisitor& visitor);
/// The axes of a training's mesh; at most one has the size -1, for the remaining ranks. Pure.
std::vector<MeshAxis> axes_of(const MeshOptions& mesh);

/// Everything that `torchweave train` reads from a configuration.
struct TrainConfig {
  train::Options run;
  DataOptions data;
  ModelOptions model;
  OptimizerOptions optimizer;
  MeshOptions mesh;
  pipeline::ModelPlanOptions pipeline;
  layer_parallel::IterationOptions layer_parallel;
  layer_parallel::LayerParallelOptions layers = {.final_time = 4};  ///< for model residual
  layer_parallel::RecurrentOptions recurrent;                       ///< for models gru and lstm
  StallOptions stall;
};
void visit(TrainConfig& config, OptionVisitor& visitor);

/// Reads all keys of `config`. @throws ConfigError with all problems at once.
TrainConfig read_train_config(Config& config);

}  // namespace tw::tool
