// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/script.h>

#include <tw/base/error.hpp>
#include <tw/data_parallel/sparse_gradients.hpp>
#include <tw/state/module_state.hpp>
#include <unordered_map>
#include <utility>

namespace tw::train {
namespace {

template <class Entry>
NamedTensor named(const Entry& entry) {
  if constexpr (requires { entry.key(); }) {
    return {entry.key(), entry.value()};
  } else {
    return {entry.name, entry.value};  // TorchScript's
  }
}

// Each tensor once; further names of it go to `aliases`.
template <class Entries>
std::vector<NamedTensor> named_once(const Entries& entries, std::map<std::string, std::string>& aliases) {
  std::vector<NamedTensor> tensors;
  std::unordered_map<const c10::TensorImpl*, std::string> first;
  for (const auto& entry : entries) {
    NamedTensor tensor = named(entry);
    const auto [found, is_new] = first.emplace(tensor.tensor.unsafeGetTensorImpl(), tensor.name);
    if (is_new) {
      tensors.push_back(std::move(tensor));
    } else {
      aliases.emplace(tensor.name, found->second);
    }
  }
  return tensors;
}

}  // namespace

int64_t Model::trained_elements() const {
  int64_t elements = 0;
  for (const NamedTensor& parameter : parameters) elements += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  return elements;
}

std::vector<NamedTensor> Model::all_tensors() const {
  std::vector<NamedTensor> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

std::vector<at::Tensor> Model::tensors() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& parameter : parameters) all.push_back(parameter.tensor);
  return all;
}

Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward) {
  std::map<std::string, std::string> aliases;
  return {.parameters = named_once(module->named_parameters(), aliases),
          .buffers = named_once(module->named_buffers(), aliases),
          .forward = std::move(forward),
          .set_training = [module](bool training) { module->train(training); },
          .empty_submodules = empty_submodules(*module),
          .aliases = std::move(aliases),
          .sparse = sparse_gradients_of(*module)};
}

Model load_torchscript(const std::filesystem::path& path) {
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const c10::Error& error) {
    throw FileError(path, 0, "is not a TorchScript file: " + std::string(error.what_without_backtrace()).substr(0, 200));
  }
  if (!module.find_method("forward")) throw FileError(path, 0, "has no method forward");
  const auto forward = [module](const at::Tensor& inputs) mutable {
    const c10::IValue output = module.forward({inputs});
    if (!output.isTensor()) throw Error("the TorchScript model's forward must give one tensor, got " + output.tagKind());
    return output.toTensor();
  };
  std::map<std::string, std::string> aliases;
  return {.parameters = named_once(module.named_parameters(), aliases),
          .buffers = named_once(module.named_buffers(), aliases),
          .forward = forward,
          .set_training = [module](bool training) mutable { module.train(training); },
          .aliases = std::move(aliases)};
}

}  // namespace tw::train
