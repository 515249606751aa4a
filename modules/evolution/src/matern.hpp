// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cmath>

namespace tw::search {

/// (1 + s + s^2 / 3) exp(-s), s = sqrt(5 r^2): the Matern covariance of smoothness 5/2 at distance r. Ref: Rasmussen & Williams 2006, equation 4.17.
inline double matern52(double squared_distance) noexcept {
  const double s = std::sqrt(5 * squared_distance);
  return (1 + s + s * s / 3) * std::exp(-s);
}

/// -2 d matern52 / d(r^2) = 5/3 (1 + s) exp(-s): the factor of -(x_d - y_d) / length_d^2 in the derivative by a coordinate x_d.
inline double matern52_slope(double squared_distance) noexcept {
  const double s = std::sqrt(5 * squared_distance);
  return 5.0 / 3 * (1 + s) * std::exp(-s);
}

/// Both functions for an array. @param squared_distances at least 0 @param slope null: not needed
inline void matern52(const Eigen::ArrayXXd& squared_distances, Eigen::ArrayXXd& value, Eigen::ArrayXXd* slope) {
  const Eigen::ArrayXXd s = (5 * squared_distances).sqrt();
  const Eigen::ArrayXXd decay = (-s).exp();
  value = (1 + s + s.square() / 3) * decay;
  if (slope != nullptr) *slope = 5.0 / 3 * (1 + s) * decay;
}

}  // namespace tw::search
