// SPDX-License-Identifier: Apache-2.0
// B-splines. Pure.
#pragma once
#include <cstdint>
#include <vector>

namespace tw::layer_training {

/// The functions that are not zero at a place.
struct SplineBasis {
  int64_t first = 0;
  std::vector<double> values;  // degree + 1 of them
};

/// The basis of `functions` B-splines of `degree` on [0, 1], whose knots are uniform inside and clamped, that is repeated, at the ends: at 0 the
/// first function is 1, at 1 the last, and everywhere their sum. Degree 0 gives `functions` intervals of equal length.
/// @param functions more than `degree`. @param t in [0, 1]. Ref: Cox 1972; de Boor 1972, J. Approximation Theory 6.
SplineBasis spline_basis(int64_t functions, int degree, double t);

}  // namespace tw::layer_training
