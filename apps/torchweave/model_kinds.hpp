// SPDX-License-Identifier: Apache-2.0
// The models that the tool knows, one row each. Configurations, planner, profiles and help read this table.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train_config.hpp"

namespace tw::tool {

/// A module, and how it is called.
struct Callable {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// A model's input and output if no data determine them.
struct UsualInput {
  std::vector<int64_t> row;  ///< shape of one input
  int64_t outputs = 10;      ///< numbers in one output
  at::ScalarType dtype = at::kFloat;
};

struct ModelKind {
  std::string name;
  std::vector<std::string> keys = {};   ///< fields of ModelOptions that it reads
  bool is_trained = true;               ///< whether `train` supports it as model.name
  bool takes_images = true;             ///< whether it takes only images, [channels, height, width]
  bool supports_stages = true;          ///< whether mesh.stage can cut it into stages
  bool has_layers_in_parallel = false;  ///< whether mesh.layer can run its layers or time steps in parallel
  bool is_measured = true;              ///< whether `plan pipeline --profile measured` supports it
  bool has_analytic_profile = false;    ///< whether `plan pipeline --profile analytic` supports it
  /// Null if the model defines no input of its own.
  UsualInput (*usual_input)(const ModelOptions& options) = nullptr;
  /// Makes the module. Null if it has no module for one rank. @param row shape of an input. @param outputs numbers in an output
  /// @throws Error if it does not accept such inputs
  Callable (*make)(const ModelOptions& options, at::IntArrayRef row, int64_t outputs) = nullptr;
};

const std::vector<ModelKind>& model_kinds();

/// Null if there is no model of this name.
const ModelKind* find_model_kind(const std::string& name);

/// The names of the models that have a property, in the order of the table.
std::vector<std::string> models_that(bool ModelKind::* property);

/// Whether `model` can be measured: by its name, or as a TorchScript file, "NAME.pt".
bool can_be_measured(const std::string& model);
bool is_torchscript_file(const std::string& model);

/// The module of a TorchScript file, which takes one tensor and returns one. @throws FileError as graph::load_torchscript()
Callable load_script(const std::filesystem::path& path);

}  // namespace tw::tool
