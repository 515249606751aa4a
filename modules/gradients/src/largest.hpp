// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw {

/// Where the `k` elements of `values` lie that are largest in magnitude, in no order: int64 [k]. Numbers that are no numbers are the largest.
/// @param values float32 or float64, shape [n], contiguous. @param k 1 to n
at::Tensor places_of_largest(const at::Tensor& values, int64_t k);

/// What places among `n` elements travel as: int32 where that holds them.
at::ScalarType type_of_places(int64_t n);

}  // namespace tw
