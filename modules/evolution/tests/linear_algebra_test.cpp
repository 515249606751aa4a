// SPDX-License-Identifier: Apache-2.0
#include "linear_algebra.hpp"

#include <gtest/gtest.h>

#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace linear_algebra_test {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_matrix(Index rows, Index columns, CounterRng& random) {
  return MatrixXd::NullaryExpr(rows, columns, [&] { return normal(random); });
}

void expect_near(const MatrixXd& a, const MatrixXd& b) { EXPECT_LT((a - b).norm(), 1e-9) << a << "\nis not\n" << b; }

TEST(LinearAlgebra, EigensystemsAreTheirDefinition) {
  CounterRng random(1);
  for (const Index n : {1, 2, 7}) {
    const MatrixXd root = random_matrix(n, n, random);
    const MatrixXd matrix = root + root.transpose();
    const Eigensystem system = eigensystem_of(matrix);
    EXPECT_TRUE(system.has_converged);
    expect_near(matrix * system.vectors, system.vectors * system.values.asDiagonal());
    expect_near(matrix_of(system.vectors, system.values), matrix);
    expect_near(system.vectors.transpose() * system.vectors, MatrixXd::Identity(n, n));
    for (Index i = 1; i < n; ++i) EXPECT_LE(system.values[i - 1], system.values[i]);
  }
}

TEST(LinearAlgebra, SolvesSystems) {
  CounterRng random(2);
  const MatrixXd matrix = random_matrix(6, 6, random);
  const VectorXd right = random_matrix(6, 1, random);
  expect_near(matrix * solution_of(matrix, right), right);
  expect_near(matrix * inverse_of(matrix), MatrixXd::Identity(6, 6));
}

/// The residual is orthogonal to all columns, one of which may be the sum of others.
TEST(LinearAlgebra, LeavesTheLeastSquares) {
  CounterRng random(3);
  MatrixXd matrix = random_matrix(8, 4, random);
  const VectorXd right = random_matrix(8, 1, random);
  for (const bool is_regular : {true, false}) {
    if (!is_regular) matrix.col(3) = matrix.col(0) + matrix.col(1);
    expect_near(matrix.transpose() * (matrix * least_squares(matrix, right) - right), VectorXd::Zero(4));
  }
}

TEST(LinearAlgebra, OrthonormalColumnsSpanTheSame) {
  CounterRng random(4);
  const MatrixXd columns = random_matrix(5, 3, random);
  const MatrixXd q = orthonormal(columns);
  ASSERT_EQ(q.cols(), 3);
  expect_near(q.transpose() * q, MatrixXd::Identity(3, 3));
  expect_near(q * (q.transpose() * columns), columns);
}

}  // namespace linear_algebra_test
}  // namespace tw::search
