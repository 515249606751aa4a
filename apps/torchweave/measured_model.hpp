// SPDX-License-Identifier: Apache-2.0
// Models that `torchweave plan pipeline` can run: built, captured, measured.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/planning/profile.hpp>

#include "train_config.hpp"

namespace tw::tool {

struct MeasuredModelOptions {
  ModelOptions model;                   ///< `name` is one that can be measured, or the path of a TorchScript file, NAME.pt
  std::string input;                    ///< shape of a row, such as "1x28x28"; empty: the model's usual one. Required for a file
  std::string input_dtype = "float32";  ///< input dtype of a file: float32 | float64 | int64
  int64_t rows = 1;                     ///< rows of the measured batch
  std::filesystem::path cache = {};     ///< see pipeline::MeasureOptions
};

struct MeasuredModel {
  graph::Graph graph;  ///< captured in training mode
  pipeline::Profile profile;
};

/// Captures and measures a model. Each rank measures a share. Collective. @throws Error that names the wrong option, file or operator
MeasuredModel measured_model(const Communicator& comm, const MeasuredModelOptions& options);

}  // namespace tw::tool
