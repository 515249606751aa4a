// SPDX-License-Identifier: Apache-2.0
#include "ellipsoid.hpp"

#include "linear_algebra.hpp"

namespace tw::search {
namespace {

constexpr double min_eigenvalue = 0.01;  // as a share of the largest
constexpr double max_condition = 1e5;

}  // namespace

Eigen::MatrixXd Ellipsoid::follow(const Eigen::MatrixXd& hessian) {
  const Eigen::Index n = map_.rows();
  Eigen::MatrixXd none = Eigen::MatrixXd::Identity(n, n);
  if (!hessian.allFinite()) return none;
  const auto [eigenvalues, vectors, has_converged] = eigensystem_of(hessian);
  const Eigen::VectorXd sizes = eigenvalues.cwiseAbs();
  if (!(sizes.maxCoeff() > 0)) return none;
  Eigen::VectorXd stretch = sizes.cwiseMax(min_eigenvalue * sizes.maxCoeff()).array().log() / 4;
  stretch = (stretch.array() - stretch.mean()).exp();
  const Eigen::MatrixXd map = matrix_of(vectors, stretch) * map_;
  const Eigen::VectorXd squares = eigensystem_of(map.transpose() * map).values;  // squares of the singular values
  if (!(squares[n - 1] <= max_condition * max_condition * squares[0])) return none;
  map_ = map;
  inverse_ = inverse_of(map);
  return matrix_of(vectors, stretch.cwiseInverse());
}

}  // namespace tw::search
