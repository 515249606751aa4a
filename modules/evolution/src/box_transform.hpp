// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

namespace tw::search {

/// A smooth map from the real line to [0, 1]: z within [a, 1 - a], (z + a)^2 / 4 a within [-a, a], likewise near the upper bound, and mirrored at -a,
/// 1 + a and so on. It increases strictly from -a to 1 + a, and its slope is continuous, and 0 at these two points. An optimum on a bound therefore
/// becomes an interior optimum, and an interior optimum stays as it is. Ref: pycma's BoundTransform.
inline constexpr double box_margin = 0.01;  // a

inline double into_box(double z) noexcept {
  const double period = 1 + 2 * box_margin;
  double t = std::fabs(std::remainder(z + box_margin, 2 * period));  // within [0, period]
  const bool upper = t > period / 2;
  if (upper) t = period - t;
  const double u = t < 2 * box_margin ? t * t / (4 * box_margin) : t - box_margin;
  return upper ? 1 - u : u;
}

/// The z in [-a, 1 + a] with into_box(z) = u. @param u in [0, 1]
inline double out_of_box(double u) noexcept {
  if (u > 0.5) return 1 - out_of_box(1 - u);
  return u < box_margin ? 2 * std::sqrt(box_margin * u) - box_margin : u;
}

}  // namespace tw::search
