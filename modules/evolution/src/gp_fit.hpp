// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "descent.hpp"
#include "gp_regression.hpp"

namespace tw::search {

/// Where a fit begins: lengths 0.5 sqrt(D), amplitude 1, quadratic part 0.1.
GpParameters first_parameters(Eigen::Index groups, Eigen::Index dimensions, double noise);

/// The logarithm of the density of `parameters` before anything is known, but for a constant:
///   length ~ log-normal(sqrt 2 + log(D) / 2, sqrt 3), so that what is expected of a function does not grow wilder with D
///   (Hvarfner, Hellsten & Nardi 2024, "Vanilla Bayesian optimization performs great in high dimensions");
///   log amplitude ~ normal(0, 1.5), log quadratic ~ normal(log 0.1, 3), log noise ~ normal(log 1e-5, 5).
/// @param gradient is added to
double log_prior(const GpParameters& parameters, Eigen::Index dimensions, Eigen::VectorXd& gradient);

/// Looks for the most likely parameters of some losses, with log_prior(), from several starts, a part of the way at a time. Deterministic.
class GpFit {
 public:
  /// @param positions of a unit cube around the origin, [D, n]. @param losses of mean 0 and deviation 1. @param starts one at least
  /// @param iterations from each
  GpFit(Eigen::MatrixXd positions, Eigen::VectorXd losses, std::vector<Eigen::Index> group, const std::vector<GpParameters>& starts, int iterations);

  /// Goes on until it has ended, or by so many likelihoods, each of O(n^3 + n^2 D).
  void go_on(int evaluations);
  bool has_ended() const;
  /// The best so far; the first start where there is none.
  GpParameters found() const;
  Eigen::Index size() const noexcept { return losses_.size(); }

 private:
  double loss(const Eigen::VectorXd& logs, Eigen::VectorXd& gradient) const;

  Eigen::MatrixXd positions_;
  Eigen::VectorXd losses_;
  std::vector<Eigen::Index> group_;
  std::vector<Descent> descents_;
};

/// All of the way.
GpParameters fitted(const Eigen::MatrixXd& positions, const Eigen::VectorXd& losses, const std::vector<Eigen::Index>& group,
                    const std::vector<GpParameters>& starts, int iterations);

}  // namespace tw::search
