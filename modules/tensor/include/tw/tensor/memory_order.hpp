// SPDX-License-Identifier: Apache-2.0
// In which order the dimensions of a tensor lie in memory: part of what it is, since view() and others ask for it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tw {

/// The dimensions, the outermost first: 0, 1, 2, ... of a contiguous tensor, 1, 0 of a transposed matrix. One that expand() has made lies nowhere,
/// and comes after the dimension before it, as LibTorch's operators order their results.
std::vector<int64_t> memory_order(const at::Tensor& tensor);

/// A tensor without gaps whose dimensions lie in that order; its values are not defined.
at::Tensor empty_in_order(at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef order);

/// `tensor` with its dimensions in that order: itself where they are, else a copy without gaps.
at::Tensor in_order(const at::Tensor& tensor, at::IntArrayRef order);

/// The elements as they lie in memory: a contiguous tensor of the same elements, a view where `tensor` has no gaps.
at::Tensor as_in_memory(const at::Tensor& tensor);

}  // namespace tw
