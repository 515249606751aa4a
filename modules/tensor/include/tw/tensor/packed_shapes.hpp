// SPDX-License-Identifier: Apache-2.0
// dtypes, shapes and orders in memory of tensors as one message of fixed size, for whoever is to receive the tensors and knows neither.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace tw {

/// int64, of one dimension, always as long. @param tensors 1 to 6, of at most 16 dimensions. @param note a number that goes along.
/// @throws ContractError for more or fewer
at::Tensor pack_shapes(const std::vector<at::Tensor>& tensors, int64_t note = 0);
/// One to receive into.
at::Tensor empty_packed_shapes();
/// Contiguous tensors of these dtypes and shapes on `device`; their values are not defined.
std::vector<at::Tensor> unpack_shapes(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
/// The same, whose dimensions lie in memory in the order of the packed ones, without gaps.
std::vector<at::Tensor> unpack_in_order(const at::Tensor& packed, c10::Device device = c10::Device(c10::kCPU));
int64_t note_of(const at::Tensor& packed);

}  // namespace tw
