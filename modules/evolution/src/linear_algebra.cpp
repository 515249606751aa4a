// SPDX-License-Identifier: Apache-2.0
#include "linear_algebra.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>

namespace tw::search {

using Eigen::MatrixXd;
using Eigen::VectorXd;

Eigensystem eigensystem_of(const MatrixXd& matrix) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(matrix);
  return {solver.eigenvalues(), solver.eigenvectors(), solver.info() == Eigen::Success};
}

MatrixXd matrix_of(const MatrixXd& vectors, const VectorXd& values) { return vectors * values.asDiagonal() * vectors.transpose(); }

VectorXd least_squares(const MatrixXd& matrix, const VectorXd& right) { return matrix.colPivHouseholderQr().solve(right); }
VectorXd solution_of(const MatrixXd& matrix, const VectorXd& right) { return matrix.partialPivLu().solve(right); }
MatrixXd inverse_of(const MatrixXd& matrix) { return matrix.partialPivLu().inverse(); }

MatrixXd orthonormal(const MatrixXd& columns) {
  return Eigen::HouseholderQR<MatrixXd>(columns).householderQ() * MatrixXd::Identity(columns.rows(), columns.cols());
}

}  // namespace tw::search
