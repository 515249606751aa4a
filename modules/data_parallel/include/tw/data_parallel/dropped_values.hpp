// SPDX-License-Identifier: Apache-2.0
// Tensors whose values a rank does not need, because other ranks have them.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Frees the memory of `tensor`; all handles to it stay valid. After that, reading its values, such as in an operator or to write a file, fails with
/// the message `why` (before LibTorch 2.13, with LibTorch's own message). Views that were made earlier keep the old values.
void drop_values(const at::Tensor& tensor, const std::string& why);

/// Whether `tensor` has memory now, or gets memory when a FullySharded gathers it. False after drop_values(), and on LibTorch's meta device.
bool has_values(const at::Tensor& tensor);

/// @throws ContractError naming one of `tensors` that has no values
void expect_values(const std::vector<NamedTensor>& tensors);

}  // namespace tw
