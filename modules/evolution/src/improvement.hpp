// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::search {

struct LogImprovement {
  double value;
  double by_mean;       ///< its derivative
  double by_deviation;  ///< the same
};

/// The logarithm of the expectation of max(0, best - y), y normal with this mean and deviation: log s + log h(z), h(z) = pdf(z) + z cdf(z),
/// z = (best - mean) / s. Exact to 1e-9 of the value for any z, also where the expectation underflows.
/// Ref: Ament et al. 2023, "Unexpected improvements to expected improvement for Bayesian optimization".
/// @param deviation above 0
LogImprovement log_expected_improvement(double mean, double deviation, double best) noexcept;

}  // namespace tw::search
