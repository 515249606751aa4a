// SPDX-License-Identifier: Apache-2.0
#include "gp_losses.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {

Eigen::VectorXd warped_losses(const std::vector<double>& losses) {
  const auto n = static_cast<Eigen::Index>(losses.size());
  Eigen::VectorXd warped = Eigen::VectorXd::Zero(n);
  std::vector<double> finite;
  std::ranges::copy_if(losses, std::back_inserter(finite), [](double y) { return std::isfinite(y); });
  if (finite.empty()) return warped;
  std::ranges::sort(finite);
  const double least = finite.front();
  // Halves, because the difference of two doubles may overflow.
  const auto above = [&](double y) { return y / 2 - least / 2; };
  double scale = above(finite[finite.size() / 2]);
  if (scale == 0) scale = above(finite.back());
  if (scale == 0) return warped;
  const auto warp = [&](double y) {
    const double t = above(y) / scale;
    return t <= 1 ? t : 1 + std::log(t);
  };
  for (Eigen::Index i = 0; i < n; ++i) {
    const double y = losses[static_cast<size_t>(i)];
    warped[i] = warp(std::isfinite(y) ? y : finite.back());
  }
  warped.array() -= warped.mean();
  const double deviation = std::sqrt(warped.squaredNorm() / static_cast<double>(n));
  return deviation > 0 ? Eigen::VectorXd(warped / deviation) : warped;
}

}  // namespace tw::search
