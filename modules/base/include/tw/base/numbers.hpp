// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tw {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Converts a non-negative index to size_t for the standard library's containers.
constexpr size_t at(int index) { return static_cast<size_t>(index); }

/// `numerator` / `denominator`, rounded up. @param numerator at least 0 @param denominator at least 1
constexpr int64_t divide_up(int64_t numerator, int64_t denominator) { return (numerator + denominator - 1) / denominator; }

}  // namespace tw
