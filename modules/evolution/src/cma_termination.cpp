// SPDX-License-Identifier: Apache-2.0
#include "cma_termination.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

constexpr size_t longest_history = 20000;

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

/// Whether the median of the newest 30 % is no better than that of the oldest 30 %.
bool no_better(const std::deque<double>& newest_first) {
  const auto part = static_cast<int64_t>(0.3 * static_cast<double>(newest_first.size()));
  return median_of({newest_first.begin(), newest_first.begin() + part}) >= median_of({newest_first.end() - part, newest_first.end()});
}

}  // namespace

CmaTermination::CmaTermination(const CmaParameters& parameters, double tol_fun, double tol_x) : tol_fun_(tol_fun), tol_x_(tol_x) {
  const auto n = static_cast<double>(parameters.dimensions);
  const auto lambda = static_cast<double>(parameters.lambda);
  recent_ = static_cast<size_t>(10 + std::ceil(30 * n / lambda));
  watched_ = static_cast<size_t>(120 + 30 * n / lambda);
  max_generations_ = static_cast<size_t>(100 + 50 * std::pow(n + 3, 2) / std::sqrt(lambda));
}

CmaStop CmaTermination::after(const CmaDistribution& distribution, const std::vector<double>& losses) {
  ++generations_;
  best_.push_front(losses.front());
  median_.push_front(losses[losses.size() / 2]);
  const size_t kept = std::max(recent_, std::min(watched_ + generations_ / 5, longest_history));
  while (best_.size() > kept) {
    best_.pop_back();
    median_.pop_back();
  }

  if (best_.size() >= recent_) {
    const auto [low, high] = std::minmax_element(best_.begin(), best_.begin() + static_cast<int64_t>(recent_));
    if (*high - *low < tol_fun_) return losses.back() - losses.front() < tol_fun_ ? CmaStop::tol_fun : CmaStop::tol_fun_hist;
  }
  const Eigen::VectorXd deviations = distribution.deviations();
  if (deviations.maxCoeff() < tol_x_ && distribution.sigma() * distribution.path().cwiseAbs().maxCoeff() < tol_x_) return CmaStop::tol_x;
  if (distribution.condition() > 1e14) return CmaStop::condition;
  const auto axis = static_cast<Eigen::Index>(generations_ % distribution.parameters().dimensions);
  const Eigen::VectorXd along = 0.1 * distribution.sigma() * distribution.lengths()[axis] * distribution.axes().col(axis);
  if (distribution.mean() + along == distribution.mean()) return CmaStop::no_effect_axis;
  if (((distribution.mean() + 0.2 * deviations).array() == distribution.mean().array()).any()) return CmaStop::no_effect_coordinate;
  if (generations_ >= max_generations_) return CmaStop::generations;
  // Checked rarely, because it reads the whole history.
  if (generations_ > watched_ && generations_ % (kept / 20) == 0 && no_better(best_) && no_better(median_)) return CmaStop::stagnation;
  return CmaStop::none;
}

}  // namespace tw::search
