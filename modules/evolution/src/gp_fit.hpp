// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "descent.hpp"
#include "gp_regression.hpp"

namespace tw::search {

/// Initial parameters of a fit: lengths 0.5 sqrt(D), amplitude 1, quadratic part 0.1.
GpParameters first_parameters(Eigen::Index groups, Eigen::Index dimensions, double noise);

/// The logarithm of the prior density of `parameters`, up to a constant:
///   length ~ log-normal(sqrt 2 + log(D) / 2, sqrt 3), so that functions do not become less smooth as D grows
///   (Hvarfner, Hellsten & Nardi 2024, "Vanilla Bayesian optimization performs great in high dimensions");
///   log amplitude ~ normal(0, 1.5), log quadratic ~ normal(log 0.1, 3), log noise ~ normal(log 1e-5, 5).
/// @param gradient is added to
double log_prior(const GpParameters& parameters, Eigen::Index dimensions, Eigen::VectorXd& gradient);

/// Maximises the posterior density of the parameters for some losses, with log_prior(), from several starts and over several calls. Deterministic.
class GpFit {
 public:
  /// @param positions in a unit cube around the origin, [D, n]. @param losses with mean 0 and deviation 1. @param starts at least one
  /// @param iterations per start
  GpFit(Eigen::MatrixXd positions, Eigen::VectorXd losses, std::vector<Eigen::Index> group, const std::vector<GpParameters>& starts, int iterations);

  /// Continues until the fit ends or has computed this number of likelihoods, each of O(n^3 + n^2 D).
  void go_on(int evaluations);
  bool has_ended() const;
  /// The best parameters so far, or the first start.
  GpParameters found() const;
  Eigen::Index size() const noexcept { return losses_.size(); }

 private:
  double loss(const Eigen::VectorXd& logs, Eigen::VectorXd& gradient) const;

  Eigen::MatrixXd positions_;
  Eigen::VectorXd losses_;
  std::vector<Eigen::Index> group_;
  std::vector<Descent> descents_;
};

/// A complete fit.
GpParameters fitted(const Eigen::MatrixXd& positions, const Eigen::VectorXd& losses, const std::vector<Eigen::Index>& group,
                    const std::vector<GpParameters>& starts, int iterations);

}  // namespace tw::search
