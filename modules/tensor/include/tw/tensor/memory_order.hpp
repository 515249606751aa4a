// SPDX-License-Identifier: Apache-2.0
// The order of a tensor's dimensions in memory. It matters because view() and other operators depend on it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tw {

/// The dimensions, outermost first: 0, 1, 2, ... for a contiguous tensor; 1, 0 for a transposed matrix. A dimension d made by expand() has no place
/// in memory: it is listed right after d - 1, as in results of LibTorch's operators.
std::vector<int64_t> memory_order(const at::Tensor& tensor);

/// An uninitialized tensor without gaps whose dimensions lie in `order`, outermost first.
at::Tensor empty_in_order(at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef order);

/// `tensor` with its dimensions in `order`: `tensor` itself if they already are, otherwise a copy without gaps.
at::Tensor in_order(const at::Tensor& tensor, at::IntArrayRef order);

/// `tensor` with its dimensions permuted to memory order, so that it is contiguous: a view if `tensor` has neither gaps nor expanded dimensions,
/// otherwise a copy.
at::Tensor as_in_memory(const at::Tensor& tensor);

}  // namespace tw
