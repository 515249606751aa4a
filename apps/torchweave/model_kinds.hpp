// SPDX-License-Identifier: Apache-2.0
// The models that the tool knows, a row each: configurations, planner, profiles and help read this table.
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

/// What a model takes and gives where no data say it.
struct UsualInput {
  std::vector<int64_t> row;  ///< the shape of one
  int64_t outputs = 10;      ///< numbers for each
  at::ScalarType dtype = at::kFloat;
};

struct ModelKind {
  std::string name;
  std::vector<std::string> keys = {};   ///< of ModelOptions, that it reads
  bool is_trained = true;               ///< by `train`: model.name may say it
  bool takes_images = true;             ///< [channels, height, width] alone
  bool is_cut = true;                   ///< into stages, by mesh.stage
  bool has_layers_in_parallel = false;  ///< or time steps, by mesh.layer
  bool is_measured = true;              ///< by `plan pipeline --profile measured`
  bool has_analytic_profile = false;    ///< of `plan pipeline`
  /// Null: what it takes is known to its file alone.
  UsualInput (*usual_input)(const ModelOptions& options) = nullptr;
  /// Null: it has no module of its own, on one rank. @param row the shape of an input @param outputs numbers for each
  /// @throws Error for inputs that it does not take
  Callable (*make)(const ModelOptions& options, at::IntArrayRef row, int64_t outputs) = nullptr;
};

const std::vector<ModelKind>& model_kinds();

/// Null: there is none of this name.
const ModelKind* find_model_kind(const std::string& name);

/// In the order of the table, of those that have it.
std::vector<std::string> models_that(bool ModelKind::* property);

/// Whether `model` can be measured: by its name, or as a TorchScript file, "NAME.pt".
bool can_be_measured(const std::string& model);
bool is_torchscript_file(const std::string& model);

/// The module of a TorchScript file, which takes one tensor and returns one. @throws FileError as graph::load_torchscript()
Callable load_script(const std::filesystem::path& path);

}  // namespace tw::tool
