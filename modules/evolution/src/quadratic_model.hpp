// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace tw::search {

/// m(s) = c + g s + s H s / 2, fitted to losses at points s by weighted least squares. With fewer points than coefficients, it has the least |H|, up
/// to a small regularisation against rounding errors. (Powell 2004, "Least Frobenius norm updating of quadratic models that satisfy interpolation
/// conditions", minimises the change of H instead.)
struct QuadraticModel {
  double constant = 0;
  Eigen::VectorXd gradient;
  Eigen::MatrixXd hessian;

  double at(const Eigen::VectorXd& s) const { return constant + gradient.dot(s) + 0.5 * s.dot(hessian * s); }

  /// @param points by column. @param weights of the squared residuals, by point. @param noise standard deviation of losses at a point of weight 1:
  /// shrinks H like a normal prior on its elements, with half the spread of the losses as deviation
  static QuadraticModel fitted(const Eigen::MatrixXd& points, const Eigen::VectorXd& losses, const Eigen::VectorXd& weights, double noise = 0);
  /// Number of coefficients of a model: 1, s, and the products of s.
  static Eigen::Index coefficients(Eigen::Index dimensions) { return (dimensions + 1) * (dimensions + 2) / 2; }
  /// The minimum of the model within |s| <= 1. Ref: More & Sorensen 1983.
  Eigen::VectorXd minimizer() const;
};

}  // namespace tw::search
