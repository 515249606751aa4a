// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace tw {

/// Whether `count` elements of `dtype` at `data` (of any alignment) are neither NaN nor infinite. Always true for integers and bool.
bool all_finite(const void* data, int64_t count, c10::ScalarType dtype) noexcept;

/// The first of `rows` rows of `row_elements` elements each that holds NaN or infinity, or -1.
int64_t first_non_finite_row(const void* data, int64_t rows, int64_t row_elements, c10::ScalarType dtype) noexcept;

}  // namespace tw
