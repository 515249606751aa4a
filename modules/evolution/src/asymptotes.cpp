// SPDX-License-Identifier: Apache-2.0
#include "asymptotes.hpp"

#include <Eigen/Cholesky>
#include <cmath>

#include "matern.hpp"

namespace tw::search {
namespace {

/// [n], without `own`.
Eigen::VectorXd covariances_with(const Eigen::VectorXd& position, const Eigen::MatrixXd& positions, const AsymptoteKernel& kernel) {
  const Eigen::ArrayXXd squared = (positions.colwise() - position).colwise().squaredNorm().transpose() / (kernel.length * kernel.length);
  Eigen::ArrayXXd matern;
  matern52(squared, matern, nullptr);
  return kernel.amplitude * matern.matrix();
}

}  // namespace

Asymptotes::Asymptotes(const Eigen::MatrixXd& positions, const std::vector<AsymptoteEvidence>& evidence, const AsymptoteKernel& kernel)
    : positions_(positions), kernel_(kernel), roots_(positions.cols()), log_likelihood_(0) {
  const Eigen::Index n = positions_.cols();
  Eigen::MatrixXd k(n, n);
  Eigen::VectorXd sums(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const AsymptoteEvidence& each = evidence[static_cast<size_t>(i)];
    k.col(i) = covariances_with(positions_.col(i), positions_, kernel_);
    roots_[i] = std::sqrt(each.precision);
    sums[i] = each.sum;
    log_likelihood_ += each.log_density;
  }
  k.diagonal().array() += kernel_.own;
  Eigen::MatrixXd b = roots_.asDiagonal() * k * roots_.asDiagonal();
  b.diagonal().array() += 1;
  const Eigen::LLT<Eigen::MatrixXd> cholesky(b);
  factor_ = cholesky.matrixL();
  const Eigen::VectorXd prior = k * sums;
  weights_ = sums - roots_.cwiseProduct(cholesky.solve(roots_.cwiseProduct(prior)));
  log_likelihood_ += prior.dot(weights_) / 2 - factor_.diagonal().array().log().sum();
}

CurveRegression::Normal Asymptotes::at(const Eigen::VectorXd& position) const {
  const Eigen::VectorXd k = covariances_with(position, positions_, kernel_);
  Eigen::VectorXd solved = roots_.cwiseProduct(k);
  factor_.triangularView<Eigen::Lower>().solveInPlace(solved);
  return {.mean = k.dot(weights_), .variance = std::max(kernel_.amplitude - solved.squaredNorm(), 0.0) + kernel_.own};
}

}  // namespace tw::search
