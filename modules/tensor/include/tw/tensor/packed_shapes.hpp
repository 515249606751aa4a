// SPDX-License-Identifier: Apache-2.0
// dtypes, shapes and memory orders of tensors as one message of fixed size, for receivers that do not know them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tw {

/// Packs the dtypes, shapes and memory orders of `tensors` into an int64 tensor of one dimension and fixed length. @param tensors 1 to 6 tensors of
/// at most 16 dimensions. @param note an additional number to send. @throws ContractError for other numbers of tensors or dimensions
at::Tensor pack_shapes(const std::vector<at::Tensor>& tensors, int64_t note = 0);
/// An uninitialized tensor that can receive the result of pack_shapes().
at::Tensor empty_packed_shapes();
/// Uninitialized contiguous tensors with the packed dtypes and shapes, on `device`.
std::vector<at::Tensor> unpack_shapes(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
/// As unpack_shapes(), but in the packed memory orders, without gaps.
std::vector<at::Tensor> unpack_in_order(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
int64_t note_of(const at::Tensor& packed);

}  // namespace tw
