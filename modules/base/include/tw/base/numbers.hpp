// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <limits>

namespace tw {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// An index that is known not to be negative, as the standard library's containers take it.
constexpr size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace tw
