// SPDX-License-Identifier: Apache-2.0
// dtypes, shapes and memory orders of tensors as one message of fixed size, for receivers that do not know them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tw {

/// @return int64, one-dimensional, of fixed length. @param tensors 1 to 6, of at most 16 dimensions. @param note an additional number to send.
/// @throws ContractError for more or fewer
at::Tensor pack_shapes(const std::vector<at::Tensor>& tensors, int64_t note = 0);
/// A tensor to receive pack_shapes() into.
at::Tensor empty_packed_shapes();
/// Uninitialised contiguous tensors of these dtypes and shapes on `device`.
std::vector<at::Tensor> unpack_shapes(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
/// The same, without gaps and with the memory order of the packed tensors.
std::vector<at::Tensor> unpack_in_order(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
int64_t note_of(const at::Tensor& packed);

}  // namespace tw
