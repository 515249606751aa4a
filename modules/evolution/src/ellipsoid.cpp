// SPDX-License-Identifier: Apache-2.0
#include "ellipsoid.hpp"

namespace tw::search {
namespace {

constexpr double least_eigenvalue = 0.01;  // of the largest
constexpr double most_condition = 1e5;

}  // namespace

Eigen::MatrixXd Ellipsoid::follow(const Eigen::MatrixXd& hessian) {
  const Eigen::Index n = map_.rows();
  const Eigen::MatrixXd none = Eigen::MatrixXd::Identity(n, n);
  if (!hessian.allFinite()) return none;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(hessian);
  const Eigen::VectorXd sizes = eigen.eigenvalues().cwiseAbs();
  if (!(sizes.maxCoeff() > 0)) return none;
  Eigen::VectorXd stretch = sizes.cwiseMax(least_eigenvalue * sizes.maxCoeff()).array().log() / 4;
  stretch = (stretch.array() - stretch.mean()).exp();
  const Eigen::MatrixXd& vectors = eigen.eigenvectors();
  const Eigen::MatrixXd map = vectors * stretch.asDiagonal() * vectors.transpose() * map_;
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(map, Eigen::ComputeFullU | Eigen::ComputeFullV);
  const Eigen::VectorXd& values = svd.singularValues();
  if (!(values[0] <= most_condition * values[n - 1])) return none;
  map_ = map;
  inverse_ = svd.matrixV() * values.cwiseInverse().asDiagonal() * svd.matrixU().transpose();
  return vectors * stretch.cwiseInverse().asDiagonal() * vectors.transpose();
}

}  // namespace tw::search
