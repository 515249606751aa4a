// SPDX-License-Identifier: Apache-2.0
#include "cma_parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tw::search {
namespace {

/// (sum w)^2 / sum w^2
double effective(const Eigen::VectorXd& weights) {
  const double squares = weights.squaredNorm();
  return squares == 0 ? 0 : weights.sum() * weights.sum() / squares;
}

}  // namespace

size_t default_lambda(size_t dimensions) { return 4 + static_cast<size_t>(3 * std::log(static_cast<double>(dimensions))); }

CmaParameters::CmaParameters(size_t n_, size_t lambda_, bool active) : dimensions(n_), lambda(lambda_), mu(lambda_ / 2) {
  const auto n = static_cast<double>(dimensions);
  const auto positive = static_cast<Eigen::Index>(mu);
  const auto negative = static_cast<Eigen::Index>(lambda - mu);
  weights.resize(static_cast<Eigen::Index>(lambda));
  for (size_t i = 0; i < lambda; ++i) {
    weights[static_cast<Eigen::Index>(i)] = std::log((static_cast<double>(lambda) + 1) / 2) - std::log(static_cast<double>(i + 1));
  }
  mu_eff = effective(weights.head(positive));
  const double mu_eff_negative = effective(weights.tail(negative));

  c_sigma = (mu_eff + 2) / (n + mu_eff + 5);
  d_sigma = 1 + 2 * std::max(0.0, std::sqrt((mu_eff - 1) / (n + 1)) - 1) + c_sigma;
  c_c = (4 + mu_eff / n) / (n + 4 + 2 * mu_eff / n);
  c_1 = 2 / (std::pow(n + 1.3, 2) + mu_eff);
  c_mu = std::min(1 - c_1, 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / (std::pow(n + 2, 2) + mu_eff));
  expected_norm = std::numbers::sqrt2 * std::exp(std::lgamma((n + 1) / 2) - std::lgamma(n / 2));
  eigen_every = static_cast<size_t>(std::max(1.0, std::floor(1 / (10 * n * (c_1 + c_mu)))));

  weights.head(positive) /= weights.head(positive).sum();
  const double sum_negative = -weights.tail(negative).sum();
  const double keeps_definite = (1 - c_1 - c_mu) / (n * c_mu);
  const double balance = std::min({1 + c_1 / c_mu, 1 + 2 * mu_eff_negative / (mu_eff + 2), keeps_definite});
  if (active && sum_negative > 0) {
    weights.tail(negative) *= balance / sum_negative;
  } else {
    weights.tail(negative).setZero();
  }
}

}  // namespace tw::search
