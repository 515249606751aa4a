// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace tw::search {

/// m(s) = c + g s + s H s / 2, fitted to losses at points s by weighted least squares. Where there are fewer points than coefficients, it is the one
/// of least |H|, but for a regularisation that rounding needs. (Powell 2004, "Least Frobenius norm updating of quadratic models that satisfy
/// interpolation conditions", takes the least change of H.)
struct QuadraticModel {
  double constant = 0;
  Eigen::VectorXd gradient;
  Eigen::MatrixXd hessian;

  double at(const Eigen::VectorXd& s) const { return constant + gradient.dot(s) + 0.5 * s.dot(hessian * s); }

  /// @param points by column. @param weights by point, of squares. @param noise standard deviation of losses at a point of weight 1: H shrinks as
  /// under normal priors whose deviation is half of what separates the losses
  static QuadraticModel fitted(const Eigen::MatrixXd& points, const Eigen::VectorXd& losses, const Eigen::VectorXd& weights, double noise = 0);
  /// 1, s and the products of s: coefficients that such a model has.
  static Eigen::Index coefficients(Eigen::Index dimensions) { return (dimensions + 1) * (dimensions + 2) / 2; }
  /// Where the model is least within |s| <= 1. Ref: More & Sorensen 1983.
  Eigen::VectorXd minimizer() const;
};

}  // namespace tw::search
