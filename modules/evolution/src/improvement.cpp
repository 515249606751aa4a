// SPDX-License-Identifier: Apache-2.0
#include "improvement.hpp"

#include <cmath>
#include <numbers>

namespace tw::search {
namespace {

/// Mills' ratio (1 - cdf(t)) / pdf(t), by Laplace's continued fraction. @param t at least 4
double mills_ratio(double t) noexcept {
  double tail = t;
  for (int k = 40; k >= 1; --k) tail = t + k / tail;
  return 1 / tail;
}

}  // namespace

LogImprovement log_expected_improvement(double mean, double deviation, double best) noexcept {
  const double z = (best - mean) / deviation;
  const double log_pdf = -z * z / 2 - std::log(2 * std::numbers::pi) / 2;
  double log_h = 0;
  double cdf_over_h = 0;
  if (z > -4) {
    const double cdf = std::erfc(-z / std::numbers::sqrt2) / 2;
    const double h = std::exp(log_pdf) + z * cdf;
    log_h = std::log(h);
    cdf_over_h = cdf / h;
  } else {
    // h = pdf (1 - t m), where t = -z and m is the ratio. 1 - t m = m / (t + 2 / (t + 3 / ...)) avoids cancellation.
    const double t = -z;
    double tail = t;
    for (int k = 40; k >= 2; --k) tail = t + k / tail;
    const double m = mills_ratio(t);
    log_h = log_pdf + std::log(m / tail);
    cdf_over_h = tail;
  }
  // dh/dz = cdf; d(log s + log h)/ds = 1/s - z/s cdf/h.
  return {std::log(deviation) + log_h, -cdf_over_h / deviation, (1 - z * cdf_over_h) / deviation};
}

}  // namespace tw::search
