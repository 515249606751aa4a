// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw::graph {

/// Zeroes each element with probability p and divides the others by 1 - p. What is drawn depends on the seed and the row alone.
/// @param first_row of `input` in the whole batch
at::Tensor dropout(const at::Tensor& input, double p, uint64_t seed, int64_t first_row);

}  // namespace tw::graph
