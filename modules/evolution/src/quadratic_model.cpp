// SPDX-License-Identifier: Apache-2.0
#include "quadratic_model.hpp"

#include <algorithm>
#include <cmath>

#include "linear_algebra.hpp"

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double tiny = 1e-300;
constexpr double in_a_plane = 1e-9;          // for points in a plane: keeps g in that plane
constexpr double min_regularisation = 1e-7;  // weight of squared coefficients of H, relative to squared residuals of losses with deviation 1

/// Products s_i s_j for i <= j, with s_i^2 / 2 on the diagonal, so that the coefficients are elements of H. Off-diagonal ones are multiplied by
/// sqrt(2), so that the norm of the coefficients is |H|.
VectorXd products(const VectorXd& s) {
  VectorXd all(s.size() * (s.size() + 1) / 2);
  Index at = 0;
  for (Index i = 0; i < s.size(); ++i) {
    all[at++] = s[i] * s[i] / 2;
    for (Index j = i + 1; j < s.size(); ++j) all[at++] = s[i] * s[j] / std::sqrt(2.0);
  }
  return all;
}

MatrixXd symmetric(const VectorXd& coefficients, Index n) {
  MatrixXd h(n, n);
  Index at = 0;
  for (Index i = 0; i < n; ++i) {
    h(i, i) = coefficients[at++];
    for (Index j = i + 1; j < n; ++j) h(i, j) = h(j, i) = coefficients[at++] / std::sqrt(2.0);
  }
  return h;
}

}  // namespace

QuadraticModel QuadraticModel::fitted(const MatrixXd& points, const VectorXd& losses, const VectorXd& weights, double noise) {
  const Index n = points.rows();
  const Index m = points.cols();
  const Index squares = coefficients(n) - n - 1;
  const double offset = losses.minCoeff();
  const double scale = std::max((losses.array() - offset).maxCoeff(), tiny);
  const double regularisation = std::max(min_regularisation, std::pow(2 * noise / scale, 2));
  const VectorXd scaled = (losses.array() - offset) / scale;
  if (m >= n + 1 + squares) {
    MatrixXd rows = MatrixXd::Zero(m + squares, n + 1 + squares);
    for (Index i = 0; i < m; ++i) {
      rows(i, 0) = 1;
      rows.block(i, 1, 1, n) = points.col(i).transpose();
      rows.block(i, 1 + n, 1, squares) = products(points.col(i)).transpose();
      rows.row(i) *= std::sqrt(weights[i]);
    }
    rows.bottomRightCorner(squares, squares).diagonal().setConstant(std::sqrt(regularisation));
    VectorXd right = VectorXd::Zero(m + squares);
    right.head(m) = scaled.array() * weights.array().sqrt();
    const VectorXd solution = least_squares(rows, right);  // points may lie in a plane
    return {offset + scale * solution[0], scale * solution.segment(1, n), scale * symmetric(solution.tail(squares), n)};
  }
  // H is a sum of outer products of points with multipliers a: (K + r W^-1) a + [1 s] b = f, [1 s]' a = 0, with K_ij = (s_i s_j)^2 / 4.
  MatrixXd system = MatrixXd::Zero(m + n + 1, m + n + 1);
  system.topLeftCorner(m, m) = (points.transpose() * points).array().square() / 4;
  system.topLeftCorner(m, m).diagonal().array() += regularisation / weights.array().max(1e-12);
  system.block(0, m, m, 1).setOnes();
  system.block(0, m + 1, m, n) = points.transpose();
  system.bottomLeftCorner(n + 1, m) = system.topRightCorner(m, n + 1).transpose();
  system.bottomRightCorner(n, n).diagonal().setConstant(-in_a_plane);
  VectorXd right = VectorXd::Zero(m + n + 1);
  right.head(m) = scaled;
  const VectorXd all = solution_of(system, right);
  return {offset + scale * all[m], scale * all.tail(n), scale / 2 * points * all.head(m).asDiagonal() * points.transpose()};
}

VectorXd QuadraticModel::minimizer() const {
  const auto [values, vectors, has_converged] = eigensystem_of(hessian);
  const VectorXd along = vectors.transpose() * gradient;
  const double scale = std::max(values.cwiseAbs().maxCoeff(), tiny);
  const auto step = [&](double shift) { return VectorXd(-along.array() / (values.array() + shift)); };
  if (values[0] > 1e-12 * scale) {
    const VectorXd newton = step(0);
    if (newton.norm() <= 1) return vectors * newton;
  }
  double low = std::max(0.0, -values[0]) + 1e-14 * scale;
  double high = low + along.norm() + scale;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (step(middle).norm() > 1 ? low : high) = middle;
  }
  VectorXd s = step(high);
  const double rest = 1 - s.squaredNorm();
  // The hard case: the gradient has no component along the direction of most negative curvature, along which the model decreases in both directions.
  if (values[0] < 0 && rest > 1e-6) s[0] = std::copysign(std::sqrt(s[0] * s[0] + rest), s[0]);
  return vectors * s;
}

}  // namespace tw::search
