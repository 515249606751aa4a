// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace tw::search {

/// P(Z > z) for a standard normal Z and z >= 0: cubic interpolation of values and slopes at multiples of 1/32, with errors below 3e-9. It is needed
/// twice for each number of each trial; with erfc it would take most of the time of a proposal.
class NormalTail {
 public:
  NormalTail() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const double z = static_cast<double>(i) / by_one;
      nodes_[i] = {std::erfc(z / std::numbers::sqrt2) / 2, -std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi) / by_one};
    }
  }
  double operator()(double z) const {
    const double at = z * by_one;
    if (!(at < static_cast<double>(nodes_.size() - 1))) return 0;
    const auto i = static_cast<size_t>(at);
    const double t = at - static_cast<double>(i);
    const Node& a = nodes_[i];
    const Node& b = nodes_[i + 1];
    const double rise = b.value - a.value;
    return a.value + t * (a.slope + t * (3 * rise - 2 * a.slope - b.slope + t * (a.slope + b.slope - 2 * rise)));
  }

 private:
  static constexpr double by_one = 32;
  struct Node {
    double value;
    double slope;
  };
  std::array<Node, 257> nodes_;
};

}  // namespace tw::search
