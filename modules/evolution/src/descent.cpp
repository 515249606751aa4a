// SPDX-License-Identifier: Apache-2.0
#include "descent.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr size_t memory = 8;
constexpr int max_halvings = 20;
constexpr double first_step = 0.1;  // share of the box's diagonal
constexpr double sufficient = 1e-4;
constexpr double negligible = 1e-10;  // relative decrease of the value

}  // namespace

Descent::Descent(const VectorXd& start, VectorXd low, VectorXd high, int iterations)
    : x_(start.cwiseMax(low).cwiseMin(high)),
      low_(std::move(low)),
      high_(std::move(high)),
      iterations_(iterations),
      value_(std::numeric_limits<double>::infinity()) {}

int Descent::go_on(const Differentiable& f, int evaluations) {
  int done = 0;
  if (gradient_.size() == 0) {
    gradient_.resize(x_.size());
    value_ = f(x_, gradient_);
    ++done;
  }
  ended_ = ended_ || !std::isfinite(value_) || iterations_ == 0;
  while (!ended_ && done < evaluations) {
    if (along_.size() == 0) choose_direction();
    if (ended_) break;
    try_step(f);
    ++done;
  }
  return done;
}

VectorXd Descent::free_coordinates() const {
  VectorXd free(x_.size());
  for (Index i = 0; i < x_.size(); ++i) {
    free[i] = (x_[i] <= low_[i] && gradient_[i] >= 0) || (x_[i] >= high_[i] && gradient_[i] <= 0) ? 0 : 1;
  }
  return free;
}

/// The two-loop recursion, restricted to free coordinates.
VectorXd Descent::direction(VectorXd q, const VectorXd& free) const {
  std::vector<double> shares;
  const auto dot = [&](const VectorXd& a, const VectorXd& b) { return (a.array() * b.array() * free.array()).sum(); };
  for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
    const double curvature = dot(pair->step, pair->change);
    shares.push_back(curvature > 0 ? dot(pair->step, q) / curvature : 0);
    q -= shares.back() * pair->change.cwiseProduct(free);
  }
  const Pair& last = pairs_.back();
  const double curvature = dot(last.step, last.change);
  if (curvature > 0) q *= curvature / dot(last.change, last.change);
  for (const Pair& pair : pairs_) {
    const double along = dot(pair.step, pair.change);
    if (along > 0) q += (shares.back() - dot(pair.change, q) / along) * pair.step.cwiseProduct(free);
    shares.pop_back();
  }
  return -q;
}

void Descent::choose_direction() {
  const VectorXd free = free_coordinates();
  const VectorXd slope = gradient_.cwiseProduct(free);
  const double steepness = slope.norm();
  ended_ = steepness == 0;
  if (ended_) return;
  const auto steepest = [&] { return VectorXd(-slope * (first_step * (high_ - low_).norm() / steepness)); };
  along_ = pairs_.empty() ? steepest() : direction(slope, free);
  if (!(along_.dot(slope) < 0)) {
    pairs_.clear();
    along_ = steepest();
  }
  halvings_ = 0;
}

void Descent::try_step(const Differentiable& f) {
  const VectorXd next = (x_ + std::ldexp(1.0, -halvings_) * along_).cwiseMax(low_).cwiseMin(high_);
  VectorXd gradient(x_.size());
  const double value = f(next, gradient);
  const bool suffices = value <= value_ + sufficient * gradient_.dot(next - x_) && next != x_;
  if (!suffices && ++halvings_ < max_halvings) return;
  if (suffices) {
    const double gain = value_ - value;
    pairs_.push_back({next - x_, gradient - gradient_});
    if (pairs_.back().step.dot(pairs_.back().change) <= 0) pairs_.pop_back();
    if (pairs_.size() > memory) pairs_.pop_front();
    x_ = next;
    gradient_ = gradient;
    value_ = value;
    ended_ = gain <= negligible * (1 + std::abs(value_));
  } else {
    ended_ = pairs_.empty();
    pairs_.clear();
  }
  along_.resize(0);
  ended_ = ended_ || --iterations_ == 0;
}

Descent descended(const Differentiable& f, const VectorXd& start, VectorXd low, VectorXd high, int iterations) {
  Descent descent(start, std::move(low), std::move(high), iterations);
  descent.go_on(f, std::numeric_limits<int>::max());
  return descent;
}

}  // namespace tw::search
