// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tw {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Converts a non-negative index to size_t for the standard library's containers.
constexpr size_t at(int index) { return static_cast<size_t>(index); }

/// `numerator` / `denominator`, rounded up. @param numerator at least 0 @param denominator at least 1
constexpr int64_t divide_up(int64_t numerator, int64_t denominator) { return numerator / denominator + (numerator % denominator == 0 ? 0 : 1); }

/// Where part `i` of `parts` nearly equal parts of 0 .. total-1 begins; the first total mod `parts` parts have one more. @param i 0 to `parts`
constexpr int64_t part_begin(int64_t total, int64_t parts, int64_t i) { return total / parts * i + std::min(i, total % parts); }

}  // namespace tw
