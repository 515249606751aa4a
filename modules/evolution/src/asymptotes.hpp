// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <vector>

#include "curve_kernel.hpp"

namespace tw::search {

/// Covariance of the asymptotes of two trials, at positions u and v: amplitude matern52(|u - v|^2 / length^2), and `own` more of one with itself,
/// since a configuration does not say all.
struct AsymptoteKernel {
  double amplitude = 1;
  double length = 1;
  double own = 0.05;
};

/// A Gaussian process of mean 0 over asymptotes that are known by the evidence of curves alone.
/// With A the diagonal matrix of precisions, b the sums, and B = I + sqrt(A) K sqrt(A), the posterior mean is K* (b - sqrt(A) B^-1 sqrt(A) K b).
/// Ref: Rasmussen & Williams 2006, equations 3.26 and 3.27; Swersky, Snoek & Adams 2014, appendix A.
class Asymptotes {
 public:
  /// @param positions [D, n]. @param evidence [n]. Cost: O(n^3 + n^2 D)
  Asymptotes(const Eigen::MatrixXd& positions, const std::vector<AsymptoteEvidence>& evidence, const AsymptoteKernel& kernel);

  /// Of all values of the curves together.
  double log_likelihood() const noexcept { return log_likelihood_; }
  /// The asymptote of another trial, at this position. Cost: O(n^2 + n D)
  CurveRegression::Normal at(const Eigen::VectorXd& position) const;

 private:
  Eigen::MatrixXd positions_;
  AsymptoteKernel kernel_;
  Eigen::VectorXd roots_;    // of the precisions
  Eigen::MatrixXd factor_;   // L of B = L L'
  Eigen::VectorXd weights_;  // of the mean
  double log_likelihood_;
};

}  // namespace tw::search
