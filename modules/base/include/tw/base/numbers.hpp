// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tw {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// An index that is known not to be negative, as the standard library's containers take it.
constexpr size_t at(int index) { return static_cast<size_t>(index); }

/// The least whole number that is not below `numerator` / `denominator`. @param numerator at least 0 @param denominator at least 1
constexpr int64_t divide_up(int64_t numerator, int64_t denominator) { return (numerator + denominator - 1) / denominator; }

}  // namespace tw
