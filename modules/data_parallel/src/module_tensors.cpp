// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"

#include <torch/nn/module.h>

#include <tw/base/concat.hpp>

namespace tw {

std::vector<NamedTensor> tensors_of(const NamedParameters& parameters) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : parameters) tensors.push_back({entry.key(), entry.value()});
  return tensors;
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors = tensors_of(module.named_parameters());
  for (NamedTensor& buffer : tensors_of(module.named_buffers())) tensors.push_back(std::move(buffer));
  return without_aliases(std::move(tensors));
}

std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [](const NamedTensor& tensor) { return !tensor.tensor.requires_grad(); });
  return without_aliases(std::move(tensors));
}

std::vector<NamedTensor> numbered(const std::vector<at::Tensor>& tensors) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < tensors.size(); ++i) named.push_back({concat("tensor ", i), tensors[i]});
  return named;
}

}  // namespace tw
