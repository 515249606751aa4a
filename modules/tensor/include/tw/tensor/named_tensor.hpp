// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// A tensor and the name by which ranks and files know it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;

  TensorSpec spec() const { return {name, tensor.sizes().vec(), tensor.scalar_type()}; }
};

/// The specs of `tensors`, in their order.
std::vector<TensorSpec> specs_of(const std::vector<NamedTensor>& tensors);

/// `tensors` without those on LibTorch's meta device, which have no memory.
std::vector<NamedTensor> with_memory(std::vector<NamedTensor> tensors);

/// `tensors` without repeated tensors (shared parameters under a second name); each keeps its first name.
std::vector<NamedTensor> without_aliases(std::vector<NamedTensor> tensors);

}  // namespace tw
