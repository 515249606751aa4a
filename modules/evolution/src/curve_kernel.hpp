// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>

#include "ended_curves.hpp"

namespace tw::search {

/// Departures of a curve from its asymptote: a Gaussian process of mean 0 with
///   cov(g(t), g(t')) = amplitude beta^alpha / (t + t' + beta)^alpha,
/// a mixture of exponential decays exp(-lambda t) with lambda ~ gamma(alpha, rate beta), and independent noise of this variance on each value.
/// Ref: Swersky, Snoek & Adams 2014, equation 6.
struct CurveKernel {
  double alpha = 1;
  double beta = 1;
  double amplitude = 1;
  double noise = 1e-3;

  double operator()(double t, double other) const;
  /// [n, n], without noise.
  Eigen::MatrixXd covariance(const Eigen::ArrayXd& steps) const;
};

/// What a curve says of its asymptote f: its density for a given f is exp(log_density + sum f - precision f^2 / 2).
struct AsymptoteEvidence {
  double precision = 0;
  double sum = 0;
  double log_density = 0;
};

/// A curve with the covariance of its values, given the asymptote. @param values less what is expected of them but for the asymptote
class CurveRegression {
 public:
  CurveRegression(const CurveKernel& kernel, Eigen::ArrayXd steps, const Eigen::VectorXd& values);

  AsymptoteEvidence evidence() const;

  struct Normal {
    double mean;
    double variance;
  };
  /// The value at `step`, with noise, of a curve whose asymptote is known to be normal, by this curve's values, too.
  Normal value_at(double step, const Normal& asymptote) const;

 private:
  CurveKernel kernel_;
  Eigen::ArrayXd steps_;
  Eigen::MatrixXd factor_;         // L of K = L L', with noise
  Eigen::VectorXd solved_values_;  // L^-1 y
  Eigen::VectorXd solved_ones_;    // L^-1 1
};

}  // namespace tw::search
