// SPDX-License-Identifier: Apache-2.0
#include "curve_kernel.hpp"

#include <Eigen/Cholesky>
#include <cmath>
#include <numbers>

namespace tw::search {

double CurveKernel::operator()(double t, double other) const { return amplitude * std::pow(beta / (t + other + beta), alpha); }

Eigen::MatrixXd CurveKernel::covariance(const Eigen::ArrayXd& steps) const {
  Eigen::MatrixXd k(steps.size(), steps.size());
  for (Eigen::Index i = 0; i < steps.size(); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) k(i, j) = k(j, i) = (*this)(steps[i], steps[j]);
  }
  return k;
}

CurveRegression::CurveRegression(const CurveKernel& kernel, Eigen::ArrayXd steps, const Eigen::VectorXd& values)
    : kernel_(kernel), steps_(std::move(steps)) {
  Eigen::MatrixXd covariance = kernel_.covariance(steps_);
  covariance.diagonal().array() += kernel_.noise;
  factor_ = covariance.llt().matrixL();  // positive definite: its eigenvalues are the noise at least
  solved_values_ = factor_.triangularView<Eigen::Lower>().solve(values);
  solved_ones_ = factor_.triangularView<Eigen::Lower>().solve(Eigen::VectorXd::Ones(values.size()));
}

AsymptoteEvidence CurveRegression::evidence() const {
  return {.precision = solved_ones_.squaredNorm(),
          .sum = solved_ones_.dot(solved_values_),
          .log_density = -solved_values_.squaredNorm() / 2 - factor_.diagonal().array().log().sum() -
                         static_cast<double>(steps_.size()) / 2 * std::log(2 * std::numbers::pi)};
}

/// With w = K^-1 k: given f, the mean is f + w (y - f), and f's own posterior takes the curve's evidence in.
CurveRegression::Normal CurveRegression::value_at(double step, const Normal& asymptote) const {
  const AsymptoteEvidence own = evidence();
  const double variance = 1 / (1 / asymptote.variance + own.precision);
  const double mean = variance * (asymptote.mean / asymptote.variance + own.sum);
  Eigen::VectorXd k(steps_.size());
  for (Eigen::Index i = 0; i < k.size(); ++i) k[i] = kernel_(steps_[i], step);
  factor_.triangularView<Eigen::Lower>().solveInPlace(k);
  const double share = 1 - k.dot(solved_ones_);  // of the asymptote
  const double given = std::max(kernel_(step, step) - k.squaredNorm(), 0.0) + kernel_.noise;
  return {.mean = k.dot(solved_values_) + share * mean, .variance = given + share * share * variance};
}

}  // namespace tw::search
