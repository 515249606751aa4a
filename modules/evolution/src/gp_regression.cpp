// SPDX-License-Identifier: Apache-2.0
#include "gp_regression.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "matern.hpp"

namespace tw::search {
namespace {

using Eigen::ArrayXXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double curvature = 4;  // factor in the quadratic part

}  // namespace

GpRegression::GpRegression(MatrixXd positions, VectorXd losses, GpParameters parameters, std::vector<Index> group)
    : positions_(std::move(positions)),
      losses_(std::move(losses)),
      parameters_(std::move(parameters)),
      group_(std::move(group)),
      inverse_lengths_(positions_.rows()) {
  for (Index d = 0; d < positions_.rows(); ++d) inverse_lengths_[d] = std::exp(-parameters_.logs[group_[static_cast<size_t>(d)]]);
  scaled_ = inverse_lengths_.asDiagonal() * positions_;
  MatrixXd covariance = covariances(positions_, nullptr);
  covariance.diagonal().array() += parameters_.noise();
  const Eigen::LLT<MatrixXd> cholesky(covariance);
  valid_ = cholesky.info() == Eigen::Success;
  if (!valid_) return;
  factor_ = cholesky.matrixL();
  weights_ = cholesky.solve(losses_);
}

ArrayXXd GpRegression::squared_distances(const MatrixXd& scaled) const {
  MatrixXd squared = -2 * scaled_.transpose() * scaled;
  squared.colwise() += scaled_.colwise().squaredNorm().transpose();
  squared.rowwise() += scaled.colwise().squaredNorm();
  return squared.array().max(0);
}

/// Covariances [n, columns]. @param slopes set to matern52_slope() times the amplitude
MatrixXd GpRegression::covariances(const MatrixXd& columns, ArrayXXd* slopes) const {
  ArrayXXd matern;
  matern52(squared_distances(inverse_lengths_.asDiagonal() * columns), matern, slopes);
  if (slopes != nullptr) *slopes *= parameters_.amplitude();
  const MatrixXd products = positions_.transpose() * columns;
  return parameters_.amplitude() * matern + parameters_.quadratic() * (1 + curvature * products.array()).square();
}

double GpRegression::own_covariance(const VectorXd& position) const {
  const double base = 1 + curvature * position.squaredNorm();
  return parameters_.amplitude() + parameters_.quadratic() * base * base;
}

double GpRegression::log_likelihood(VectorXd* gradient) const {
  const Index n = size();
  const double value =
      -losses_.dot(weights_) / 2 - factor_.diagonal().array().log().sum() - static_cast<double>(n) / 2 * std::log(2 * std::numbers::pi);
  if (gradient == nullptr) return value;
  // d/dt = tr(W dK/dt) / 2 with W = K^-1 y y' K^-1 - K^-1.
  MatrixXd w = MatrixXd::Identity(n, n);
  factor_.triangularView<Eigen::Lower>().solveInPlace(w);
  const MatrixXd inverse_factor = w;
  w.noalias() = -inverse_factor.transpose() * inverse_factor.triangularView<Eigen::Lower>();
  w += weights_ * weights_.transpose();
  ArrayXXd matern;
  ArrayXXd slopes;
  matern52(squared_distances(scaled_), matern, &slopes);
  const MatrixXd weighted = w.array() * slopes * parameters_.amplitude();
  // The sum over all pairs of weighted (s_i - s_j)^2, where s is a scaled coordinate.
  const VectorXd sums = weighted.rowwise().sum();
  const VectorXd by_coordinate =
      2 * (scaled_.array().square().matrix() * sums - ((scaled_ * weighted).array() * scaled_.array()).rowwise().sum().matrix());
  gradient->setZero(parameters_.logs.size());
  for (Index d = 0; d < by_coordinate.size(); ++d) (*gradient)[group_[static_cast<size_t>(d)]] += by_coordinate[d] / 2;
  const Index groups = parameters_.groups();
  const MatrixXd products = positions_.transpose() * positions_;
  (*gradient)[groups] = (w.array() * matern).sum() * parameters_.amplitude() / 2;
  (*gradient)[groups + 1] = (w.array() * (1 + curvature * products.array()).square()).sum() * parameters_.quadratic() / 2;
  (*gradient)[groups + 2] = w.trace() * parameters_.noise() / 2;
  return value;
}

GpRegression::Prediction GpRegression::at(const VectorXd& position) const {
  VectorXd means;
  VectorXd variances;
  at(MatrixXd(position), means, variances);
  return {means[0], variances[0]};
}

void GpRegression::at(const MatrixXd& columns, VectorXd& means, VectorXd& variances) const {
  MatrixXd k = covariances(columns, nullptr);
  means = k.transpose() * weights_;
  factor_.triangularView<Eigen::Lower>().solveInPlace(k);
  variances = -k.colwise().squaredNorm().transpose();
  for (Index i = 0; i < columns.cols(); ++i) variances[i] = std::max(0.0, variances[i] + own_covariance(columns.col(i)));
}

GpRegression::Prediction GpRegression::at(const VectorXd& position, VectorXd& mean_slope, VectorXd& variance_slope) const {
  ArrayXXd slopes;
  const VectorXd k = covariances(position, &slopes);
  const VectorXd half_solved = factor_.triangularView<Eigen::Lower>().solve(k);
  const double variance = std::max(0.0, own_covariance(position) - half_solved.squaredNorm());
  const VectorXd solved = factor_.transpose().triangularView<Eigen::Upper>().solve(half_solved);
  // dk_i/dx = -slope_i (x - x_i) / length^2 + 2 quadratic (1 + 4 x.x_i) 4 x_i, summed with the weights of mean and variance.
  const Eigen::ArrayXd bases = 1 + curvature * (positions_.transpose() * position).array();
  const VectorXd of_quadratic = 2 * parameters_.quadratic() * curvature * bases;
  const auto slope_with = [&](const VectorXd& weights) -> VectorXd {
    const VectorXd each = weights.array() * slopes.col(0);
    const VectorXd matern = (positions_ * each - each.sum() * position).array() * inverse_lengths_.array().square();
    return matern + positions_ * (weights.array() * of_quadratic.array()).matrix();
  };
  mean_slope = slope_with(weights_);
  const double base = 1 + curvature * position.squaredNorm();
  variance_slope = 4 * parameters_.quadratic() * curvature * base * position - 2 * slope_with(solved);
  return {k.dot(weights_), variance};
}

void GpRegression::believe(const VectorXd& position) {
  const Index n = size();
  const VectorXd k = covariances(position, nullptr);
  const double mean = k.dot(weights_);
  const VectorXd row = factor_.triangularView<Eigen::Lower>().solve(k);
  // Rounding may make it smaller than the noise.
  const double rest = std::max(own_covariance(position) - row.squaredNorm(), 0.0) + parameters_.noise();
  factor_.conservativeResize(n + 1, n + 1);
  factor_.col(n).setZero();
  factor_.row(n).head(n) = row;
  factor_(n, n) = std::sqrt(rest);
  positions_.conservativeResize(Eigen::NoChange, n + 1);
  positions_.col(n) = position;
  scaled_.conservativeResize(Eigen::NoChange, n + 1);
  scaled_.col(n) = inverse_lengths_.cwiseProduct(position);
  losses_.conservativeResize(n + 1);
  losses_[n] = mean;
  weights_.conservativeResize(n + 1);
  weights_[n] = 0;  // K^-1 (y, mean): an observation equal to the mean adds nothing
}

}  // namespace tw::search
