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

  /// The length of the farthest point.
  double reach() const noexcept { return reach_; }
  double at(const Eigen::VectorXd& y) const;
  /// Taylor's, of steps from y: the value, slope and curvature there.
  QuadraticModel around(const Eigen::VectorXd& y) const;

 private:
  Eigen::VectorXd products(const Eigen::VectorXd& y) const;

  double reach_ = 1;         // the unit of the variables in products
  Eigen::MatrixXi powers_;   // dimensions x products
  Eigen::VectorXd factors_;  // of products
};

struct Polynomial::Fit {
  Polynomial polynomial;
  double error = 0;  ///< geometric mean over the judged points of how wrong it would be there, were it fitted without that point
};

/// The polynomial of degree 2 to 4 that errs least at the nearest points, each of which is left out in turn (Stone 1974): the quadratic, unless
/// another errs an eighth as much. None where it errs by more than a tenth of what separates losses there from the first one, and in more than four
/// dimensions. Each is fitted to 3/2 times as many points as it has coefficients.
/// @param points by column, nearest first: the first is the origin
std::optional<Polynomial> reliable_polynomial(const Eigen::MatrixXd& points, const Eigen::VectorXd& losses);
/// Points of which that makes use at most.
Eigen::Index points_for_polynomials(Eigen::Index dimensions);

}  // namespace tw::search
