// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

namespace tw::search {

/// A linear map A of determinant 1 that defines lengths; initially the identity.
class Ellipsoid {
 public:
  explicit Ellipsoid(Eigen::Index dimensions) : map_(Eigen::MatrixXd::Identity(dimensions, dimensions)), inverse_(map_) {}

  Eigen::VectorXd to(const Eigen::VectorXd& x) const { return map_ * x; }
  Eigen::VectorXd from(const Eigen::VectorXd& y) const { return inverse_ * y; }
  double length(const Eigen::VectorXd& x) const { return (map_ * x).norm(); }

  /// A <- |H|^(1/4) A, scaled, which moves the level lines of y H y / 2 halfway to spheres. Unchanged if the condition would exceed 1e5.
  /// @return |H|^(-1/4), scaled, which maps the new y to the old one
  Eigen::MatrixXd follow(const Eigen::MatrixXd& hessian);

 private:
  Eigen::MatrixXd map_;
  Eigen::MatrixXd inverse_;
};

}  // namespace tw::search
