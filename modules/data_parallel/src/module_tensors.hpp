// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters and then buffers of `module`, each once.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

/// The entries of `parameters`, in their order.
std::vector<NamedTensor> tensors_of(const NamedParameters& parameters);

/// Those of `tensors` that require a gradient, each once.
std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors);

/// The same tensors under the names "tensor 0", "tensor 1", ...
std::vector<NamedTensor> numbered(const std::vector<at::Tensor>& tensors);

}  // namespace tw
