// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/script.h>

#include <tw/base/error.hpp>
#include <tw/state/module_state.hpp>

namespace tw::train {
namespace {

template <class NamedTensors>
std::vector<NamedTensor> named(const NamedTensors& entries) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : entries) tensors.push_back({entry.key(), entry.value()});
  return without_aliases(std::move(tensors));
}

std::vector<NamedTensor> named(const torch::jit::named_parameter_list& entries) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : entries) tensors.push_back({entry.name, entry.value});
  return without_aliases(std::move(tensors));
}

}  // namespace

int64_t Model::trained_elements() const {
  int64_t elements = 0;
  for (const NamedTensor& parameter : parameters) elements += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  return elements;
}

std::vector<at::Tensor> Model::tensors() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& parameter : parameters) all.push_back(parameter.tensor);
  return all;
}

Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward) {
  return {.parameters = named(module->named_parameters()),
          .buffers = named(module->named_buffers()),
          .forward = std::move(forward),
          .set_training = [module](bool training) { module->train(training); },
          .empty_submodules = empty_submodules(*module)};
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
  std::vector<NamedTensor> buffers;
  for (const auto& entry : module.named_buffers()) buffers.push_back({entry.name, entry.value});
  return {named(module.named_parameters()), without_aliases(std::move(buffers)), forward,
          [module](bool training) mutable { module.train(training); }};
}

}  // namespace tw::train
