// SPDX-License-Identifier: Apache-2.0
// B-splines, as pure functions.
#pragma once
#include <cstdint>
#include <vector>

namespace tw::layer_training {

/// The basis functions that are not zero at one place.
struct SplineBasis {
  int64_t first = 0;
  std::vector<double> values;  // degree + 1 values
};

/// The basis of `functions` B-splines of `degree` on [0, 1]. Knots are uniform inside and repeated (clamped) at the ends. The first function is 1 at
/// 0, the last is 1 at 1, and the functions sum to 1 everywhere. Degree 0 means `functions` intervals of equal length.
/// @param functions more than `degree`. @param t in [0, 1]. Ref: Cox 1972; de Boor 1972, J. Approximation Theory 6.
SplineBasis spline_basis(int64_t functions, int degree, double t);

}  // namespace tw::layer_training
