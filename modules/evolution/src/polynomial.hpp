// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Dense>
#include <optional>

#include "quadratic_model.hpp"

namespace tw::search {

/// Of several variables: a sum of products of powers.
class Polynomial {
 public:
  struct Fit;

  /// (D + p)! / D! p!, that such a polynomial has.
  static Eigen::Index coefficients(Eigen::Index dimensions, int degree);
  /// By least squares. @param points by column, more than there are coefficients @param judged how many of them, from the first on, the fit's error
  /// is of
  static Fit fitted(const Eigen::MatrixXd& points, const Eigen::VectorXd& losses, int degree, Eigen::Index judged);

  double at(const Eigen::VectorXd& y) const;
  /// Of Taylor, by steps from y.
  QuadraticModel around(const Eigen::VectorXd& y) const;

 private:
  Eigen::VectorXd products(const Eigen::VectorXd& y) const;

  double unit_ = 1;          // of the variables
  Eigen::MatrixXi powers_;   // dimensions x products
  Eigen::VectorXd factors_;  // of products
};

struct Polynomial::Fit {
  Polynomial polynomial;
  double error = 0;  ///< geometric mean over the judged points of how wrong it would be there, were it fitted without that point
};

/// The polynomial of the third or the fourth degree, whichever errs less at the nearest points, if a quadratic errs eight times as much; none in more
/// than four dimensions, where they have too many coefficients. Each is fitted to 3/2 times as many points as it has coefficients.
/// @param points by column, the nearest to the origin first
std::optional<Polynomial> better_than_quadratic(const Eigen::MatrixXd& points, const Eigen::VectorXd& losses);
/// Points of which that makes use at most.
Eigen::Index points_for_polynomials(Eigen::Index dimensions);

}  // namespace tw::search
