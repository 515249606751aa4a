// SPDX-License-Identifier: Apache-2.0
#include "success_history.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

constexpr double deviation = 0.1;

double cauchy(CounterRng& random) { return std::tan(std::numbers::pi * (uniform(random) - 0.5)); }

}  // namespace

double lehmer_mean(const std::vector<double>& values, const std::vector<double>& weights) {
  const double largest = weights.empty() ? 0 : *std::ranges::max_element(weights);
  double squares = 0;
  double sum = 0;
  for (size_t i = 0; i < values.size() && largest > 0; ++i) {
    const double weight = weights[i] / largest;
    squares += weight * values[i] * values[i];
    sum += weight * values[i];
  }
  return sum > 0 ? squares / sum : 0;
}

size_t reduced_size(size_t first, size_t least, int64_t done, int64_t evaluations) {
  const auto from = static_cast<double>(first);
  const double size = from + (static_cast<double>(least) - from) * static_cast<double>(done) / static_cast<double>(evaluations);
  return std::max(least, static_cast<size_t>(std::max(0.0, std::round(size))));
}

SuccessHistory::Entry SuccessHistory::draw(CounterRng& random) const {
  const Entry& mean = entries_[index_below(random, entries_.size())];
  const double crossover = mean.crossover < 0 ? 0 : std::clamp(mean.crossover + deviation * normal(random), 0.0, 1.0);
  double factor = 0;
  while (!(factor > 0)) factor = mean.factor + deviation * cauchy(random);
  return {std::min(factor, 1.0), crossover};
}

void SuccessHistory::succeed(const Entry& drawn, double gain) {
  factors_.push_back(drawn.factor);
  crossovers_.push_back(drawn.crossover);
  gains_.push_back(gain);
}

void SuccessHistory::update() {
  if (gains_.empty()) return;
  Entry& entry = entries_[next_];
  const bool ends = entry.crossover < 0 || *std::ranges::max_element(crossovers_) == 0;
  entry = {lehmer_mean(factors_, gains_), ends ? -1 : lehmer_mean(crossovers_, gains_)};
  next_ = (next_ + 1) % entries_.size();
  factors_.clear();
  crossovers_.clear();
  gains_.clear();
}

}  // namespace tw::search
