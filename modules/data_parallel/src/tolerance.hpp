// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cmath>
#include <limits>

namespace tw {

/// The largest relative difference between numbers that are equal up to rounding on different ranks: the square root of the dtype's precision, or 0.1
/// for half precision.
inline double tolerance_of(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kDouble: return std::sqrt(std::numeric_limits<double>::epsilon());
    case c10::kFloat: return std::sqrt(std::numeric_limits<float>::epsilon());
    default: return 0.1;
  }
}

}  // namespace tw
