// SPDX-License-Identifier: Apache-2.0
// Models that `torchweave plan` can run: built, captured, measured.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/planning/profile.hpp>

namespace tw::tool {

/// Each of a model's options is for the model that it names.
struct MeasuredModelOptions {
  std::string model;                    ///< lenet | mlp | resnet | gpt, or the path of a TorchScript file, NAME.pt
  std::string input;                    ///< shape of a row, such as "1x28x28"; empty: the model's usual one, which a file has not
  std::string input_dtype = "float32";  ///< of a file: float32 | float64 | int64
  int64_t rows = 1;                     ///< of the batch that is measured
  std::filesystem::path cache = {};     ///< see pipeline::MeasureOptions
  int64_t hidden = 1;                   ///< mlp: neurons of each layer, also of input and output
  int64_t layers = 1;                   ///< mlp
  int64_t blocks = 1;                   ///< resnet: a stage; gpt
  int64_t width = 1;                    ///< gpt
  int64_t heads = 1;                    ///< gpt
  int64_t sequence = 1;                 ///< gpt
  int64_t vocabulary = 1;               ///< gpt
};

struct MeasuredModel {
  graph::Graph graph;  ///< in training
  pipeline::Profile profile;
};

/// Whether `model` names one that can be measured: "lenet", "mlp", "resnet", "gpt", "FILE.pt".
bool can_be_measured(const std::string& model);

/// All ranks measure, each its share. Collective. @throws Error naming the option, file or operator that will not do
MeasuredModel measured_model(const Communicator& comm, const MeasuredModelOptions& options);

}  // namespace tw::tool
