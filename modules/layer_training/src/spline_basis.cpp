// SPDX-License-Identifier: Apache-2.0
#include "spline_basis.hpp"

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>

namespace tw::layer_training {

SplineBasis spline_basis(int64_t functions, int degree, double t) {
  TW_EXPECTS(degree >= 0 && functions > degree, "a spline of degree ", degree, " needs more functions than its degree, got ", functions);
  TW_EXPECTS(t >= 0 && t <= 1, "a spline on [0, 1] has no value at ", t);
  const int64_t intervals = functions - degree;
  const int64_t interval = std::min(static_cast<int64_t>(std::floor(t * static_cast<double>(intervals))), intervals - 1);
  // In units of an interval: knots 1, 2, ... lie to the right of `place`, knots 0, -1, ... to its left.
  const auto knot = [&](int64_t k) { return static_cast<double>(std::clamp<int64_t>(interval + k, 0, intervals)); };
  const double place = t * static_cast<double>(intervals);
  // Cox-de Boor recursion. Nonzero function i of degree p runs from knot i - p to knot i + 1. It combines two functions of degree p - 1: one that
  // ends a knot earlier, and one that begins a knot later.
  std::vector<double> values{1};
  for (int p = 1; p <= degree; ++p) {
    std::vector<double> next(static_cast<size_t>(p) + 1, 0);
    for (int i = 0; i < p; ++i) {  // function i of degree p - 1: from knot i - p + 1 to i + 1
      const double begin = knot(i - p + 1);
      const double end = knot(i + 1);
      const double rising = (place - begin) / (end - begin);
      next[static_cast<size_t>(i)] += (1 - rising) * values[static_cast<size_t>(i)];
      next[static_cast<size_t>(i) + 1] += rising * values[static_cast<size_t>(i)];
    }
    values = std::move(next);
  }
  return {interval, std::move(values)};
}

}  // namespace tw::layer_training
