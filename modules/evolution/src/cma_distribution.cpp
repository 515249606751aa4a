// SPDX-License-Identifier: Apache-2.0
#include "cma_distribution.hpp"

#include <cmath>
#include <limits>
#include <tw/evolution/draws.hpp>
#include <utility>

#include "linear_algebra.hpp"

namespace tw::search {

using Eigen::Index;

CmaDistribution::CmaDistribution(Eigen::VectorXd mean, double sigma, const CmaParameters& parameters)
    : parameters_(parameters), mean_(std::move(mean)), sigma_(sigma) {
  const Index n = mean_.size();
  stretch_.setOnes(n);
  path_sigma_.setZero(n);
  path_c_.setZero(n);
  covariance_.setIdentity(n, n);
  axes_.setIdentity(n, n);
  lengths_.setOnes(n);
  normal_.resize(n);
}

void CmaDistribution::sample(CounterRng& random, Eigen::VectorXd& x) {
  for (Index i = 0; i < normal_.size(); ++i) normal_[i] = lengths_[i] * normal(random);
  x.noalias() = axes_ * normal_;
  x.array() = mean_.array() + sigma_ * stretch_.array() * x.array();
}

template <class Steps>
void CmaDistribution::whiten(const Steps& steps, Eigen::Ref<Eigen::MatrixXd> whitened) const {
  whitened.noalias() = axes_.transpose() * steps;
  whitened.array().colwise() /= lengths_.array();
}

void CmaDistribution::update(const Eigen::MatrixXd& samples, const std::vector<CmaOrigin>& origins, const Eigen::MatrixXd& drawn) {
  const CmaParameters& p = parameters_;
  const auto n = static_cast<double>(p.dimensions);
  const auto mu = static_cast<Index>(p.mu);

  steps_ = (samples.colwise() - mean_).array().colwise() / (sigma_ * stretch_.array());
  whitened_.resizeLike(steps_);
  whiten(steps_, whitened_);
  const double longest = std::sqrt(n) + 2 * n / (n + 2);
  Eigen::VectorXd weights = p.weights;
  Eigen::VectorXd move = Eigen::VectorXd::Zero(mean_.size());
  for (Index i = 0; i < steps_.cols(); ++i) {
    const CmaOrigin origin = origins[static_cast<size_t>(i)];
    double length = whitened_.col(i).norm();
    if (origin != CmaOrigin::current && length > longest) {
      steps_.col(i) *= longest / length;
      whitened_.col(i) *= longest / length;
      length = longest;
    }
    if (i < mu) move += weights[i] * steps_.col(i);
    if (origin == CmaOrigin::late) {
      steps_.col(i) = drawn.col(i);
      whiten(drawn.col(i), whitened_.col(i));
      length = whitened_.col(i).norm();
    }
    if (weights[i] < 0) weights[i] *= n / std::max(length * length, std::numeric_limits<double>::min());
  }
  mean_.array() += sigma_ * stretch_.array() * move.array();
  const Eigen::VectorXd step = steps_.leftCols(mu) * weights.head(mu);

  path_sigma_ *= 1 - p.c_sigma;
  path_sigma_ += std::sqrt(p.c_sigma * (2 - p.c_sigma) * p.mu_eff) * (axes_ * (whitened_.leftCols(mu) * weights.head(mu)));
  const double norm = path_sigma_.norm();
  const double started = 1 - std::pow(1 - p.c_sigma, 2 * static_cast<double>(generation_ + 1));
  const bool moves = norm / std::sqrt(started) < (1.4 + 2 / (n + 1)) * p.expected_norm;  // h_sigma
  path_c_ *= 1 - p.c_c;
  if (moves) path_c_ += std::sqrt(p.c_c * (2 - p.c_c) * p.mu_eff) * step;

  const double lost = moves ? 0 : p.c_c * (2 - p.c_c);
  covariance_ *= 1 + p.c_1 * lost - p.c_1 - p.c_mu * p.weights.sum();
  whitened_ = steps_ * (p.c_mu * weights).asDiagonal();
  covariance_.noalias() += whitened_ * steps_.transpose();
  covariance_.noalias() += p.c_1 * path_c_ * path_c_.transpose();
  // At most by a factor of e: an injected solution may make the path long.
  sigma_ *= std::exp(std::min(1.0, p.c_sigma / p.d_sigma * (norm / p.expected_norm - 1)));

  ++generation_;
  if (generation_ - decomposed_ >= p.eigen_every) decompose();
}

void CmaDistribution::limit_deviation(double most) {
  const double largest = deviations().maxCoeff();
  if (largest > most) sigma_ *= most / largest;
}

void CmaDistribution::decompose() {
  decomposed_ = generation_;
  Eigensystem system = eigensystem_of(covariance_);
  const double largest = system.values.maxCoeff();
  const double smallest = system.values.minCoeff();
  const bool definite = system.has_converged && smallest > 0 && std::isfinite(largest);
  condition_ = definite ? largest / smallest : std::numeric_limits<double>::infinity();
  if (!definite) return;
  axes_ = std::move(system.vectors);
  lengths_ = system.values.cwiseSqrt();
}

}  // namespace tw::search
