// SPDX-License-Identifier: Apache-2.0
#include "descent.hpp"

#include <cmath>
#include <deque>

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr size_t memory = 8;
constexpr int most_halvings = 20;
constexpr double first_step = 0.1;  // of the box's diagonal
constexpr double sufficient = 1e-4;
constexpr double negligible = 1e-10;  // relative decrease of the value

struct Pair {
  VectorXd step;
  VectorXd change;  // of the gradient
};

/// The two loops, on what may move.
VectorXd direction(const std::deque<Pair>& pairs, VectorXd q, const VectorXd& free) {
  std::vector<double> shares;
  const auto dot = [&](const VectorXd& a, const VectorXd& b) { return (a.array() * b.array() * free.array()).sum(); };
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    const double curvature = dot(pair->step, pair->change);
    shares.push_back(curvature > 0 ? dot(pair->step, q) / curvature : 0);
    q -= shares.back() * pair->change.cwiseProduct(free);
  }
  const Pair& last = pairs.back();
  const double curvature = dot(last.step, last.change);
  if (curvature > 0) q *= curvature / dot(last.change, last.change);
  for (const Pair& pair : pairs) {
    const double along = dot(pair.step, pair.change);
    if (along > 0) q += (shares.back() - dot(pair.change, q) / along) * pair.step.cwiseProduct(free);
    shares.pop_back();
  }
  return -q;
}

}  // namespace

Descent descend(const Differentiable& f, VectorXd start, const VectorXd& low, const VectorXd& high, int iterations) {
  VectorXd x = start.cwiseMax(low).cwiseMin(high);
  VectorXd gradient(x.size());
  double value = f(x, gradient);
  std::deque<Pair> pairs;
  VectorXd next_gradient(x.size());
  for (int iteration = 0; iteration < iterations && std::isfinite(value); ++iteration) {
    VectorXd free(x.size());
    for (Index i = 0; i < x.size(); ++i) free[i] = (x[i] <= low[i] && gradient[i] >= 0) || (x[i] >= high[i] && gradient[i] <= 0) ? 0 : 1;
    const VectorXd slope = gradient.cwiseProduct(free);
    const double steepness = slope.norm();
    if (steepness == 0) break;
    VectorXd along = pairs.empty() ? VectorXd(-slope * (first_step * (high - low).norm() / steepness)) : direction(pairs, slope, free);
    if (!(along.dot(slope) < 0)) {
      pairs.clear();
      along = -slope * (first_step * (high - low).norm() / steepness);
    }
    double share = 1;
    bool moved = false;
    for (int halving = 0; halving < most_halvings && !moved; ++halving, share /= 2) {
      const VectorXd next = (x + share * along).cwiseMax(low).cwiseMin(high);
      const double next_value = f(next, next_gradient);
      if (!(next_value <= value + sufficient * gradient.dot(next - x)) || next == x) continue;
      const double gain = value - next_value;
      pairs.push_back({next - x, next_gradient - gradient});
      if (pairs.back().step.dot(pairs.back().change) <= 0) pairs.pop_back();
      if (pairs.size() > memory) pairs.pop_front();
      x = next;
      gradient = next_gradient;
      value = next_value;
      moved = true;
      if (gain <= negligible * (1 + std::abs(value))) return {x, value};
    }
    if (!moved) {
      if (pairs.empty()) break;
      pairs.clear();
    }
  }
  return {x, value};
}

}  // namespace tw::search
