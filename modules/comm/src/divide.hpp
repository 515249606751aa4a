// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <tw/tensor/tensor_spec.hpp>

namespace tw {

/// `count` elements of host memory, borrowed.
inline at::Tensor as_tensor(const std::byte* memory, int64_t count, ElementType type) {
  return at::from_blob(const_cast<std::byte*>(memory), {count}, at::TensorOptions().dtype(dtype_of(type)));
}

/// Turns sums over `ranks` ranks into averages.
inline void divide(std::byte* sums, int64_t count, ElementType type, int ranks) {
  const at::NoGradGuard no_grad;
  as_tensor(sums, count, type).div_(ranks);
}

}  // namespace tw
