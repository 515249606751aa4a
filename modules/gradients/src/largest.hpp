// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw {

/// Indices of the `k` elements of `values` with the largest magnitude, in no order: int64 [k]. NaN counts as largest.
/// @param values float32 or float64, shape [n], contiguous. @param k 1 to n
at::Tensor places_of_largest(const at::Tensor& values, int64_t k);

/// The integer type in which indices of `n` elements are sent: int32 if it can hold them.
at::ScalarType type_of_places(int64_t n);

}  // namespace tw
