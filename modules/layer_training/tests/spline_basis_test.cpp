// SPDX-License-Identifier: Apache-2.0
#include "spline_basis.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <tw/base/error.hpp>

namespace tw::layer_training {
namespace spline_basis_test {

/// Values of all functions at `t`.
std::vector<double> values(int64_t functions, int degree, double t) {
  const SplineBasis basis = spline_basis(functions, degree, t);
  std::vector<double> all(static_cast<size_t>(functions), 0);
  for (size_t i = 0; i < basis.values.size(); ++i) all.at(static_cast<size_t>(basis.first) + i) = basis.values[i];
  return all;
}

void expect_values(int64_t functions, int degree, double t, const std::vector<double>& expected) {
  const std::vector<double> ours = values(functions, degree, t);
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-15) << "function " << i << " of degree " << degree << " at " << t;
}

/// Values computed by hand from the polynomials of each piece.
TEST(SplineBasis, HasTheValuesOfItsPolynomials) {
  expect_values(4, 0, 0.3, {0, 1, 0, 0});  // steps of 1/4
  expect_values(4, 0, 0.75, {0, 0, 0, 1});
  expect_values(3, 1, 0.25, {0.5, 0.5, 0});  // hats about 0, 1/2, 1
  expect_values(3, 1, 0.9, {0, 0.2, 0.8});
  // Two pieces, u = 2 t on the first: (1-u)^2, u (2 - 3/2 u), u^2 / 2
  expect_values(4, 2, 0.25, {0.25, 0.625, 0.125, 0});
  expect_values(4, 2, 0.5, {0, 0.5, 0.5, 0});
  // One piece: Bernstein's polynomials
  expect_values(4, 3, 0.5, {0.125, 0.375, 0.375, 0.125});
  // Two pieces: (1-u)^3, u (3 - 9/2 u + 7/4 u^2), u^2 (3/2 - u), u^3 / 4
  expect_values(5, 3, 0.25, {0.125, 0.59375, 0.25, 0.03125, 0});
  // Eight pieces, far from the ends: the uniform cubic at a knot, 1/6, 4/6, 1/6
  expect_values(11, 3, 0.5, {0, 0, 0, 0, 1.0 / 6, 4.0 / 6, 1.0 / 6, 0, 0, 0, 0});
}

TEST(SplineBasis, IsAPartitionOfUnityAndInterpolatesTheEnds) {
  for (int degree = 0; degree <= 3; ++degree) {
    for (const int64_t functions : {degree + 1, degree + 2, 9}) {
      for (int i = 0; i <= 40; ++i) {
        const std::vector<double> all = values(functions, degree, i / 40.0);
        EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), 1, 1e-15);
        for (const double value : all) EXPECT_GE(value, 0);
      }
      EXPECT_EQ(values(functions, degree, 0).front(), 1);
      EXPECT_EQ(values(functions, degree, 1).back(), 1);
    }
  }
}

TEST(SplineBasis, RefusesWhatIsNone) {
  EXPECT_THROW(spline_basis(3, 3, 0.5), ContractError);
  EXPECT_THROW(spline_basis(4, -1, 0.5), ContractError);
  EXPECT_THROW(spline_basis(4, 2, 1.1), ContractError);
}

}  // namespace spline_basis_test
}  // namespace tw::layer_training
