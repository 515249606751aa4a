// SPDX-License-Identifier: Apache-2.0
#include "separable_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw::search {
namespace {

constexpr double as_foretold = 1e-6;  // an error, as a share of what the parameters change

}  // namespace

std::optional<std::vector<double>> SeparableSearch::ask(const Population& population) {
  if (sum_ == Sum::refuted) return std::nullopt;
  if (lines_.empty()) {
    if (population.best() == nullptr || !std::isfinite(population.best()->loss)) return std::nullopt;
    begin(*population.best());
  }
  if (test_.empty()) {
    if (const auto values = test()) return test_ = *values;
  }
  std::vector<double> values = sum_ == Sum::holds ? least() : base_;
  if (!same_values(values, least_)) return least_ = values;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const size_t parameter = turn_++ % lines_.size();
    if (!lines_[parameter]) continue;
    // More workers than parameters split different intervals.
    const auto place = lines_[parameter]->next(static_cast<size_t>(share_.first) / lines_.size());
    if (!place) continue;
    move(values, parameter, *place);
    return values;
  }
  return std::nullopt;
}

void SeparableSearch::tell(const Individual& individual) {
  if (individual.state == TrialState::running || lines_.empty() || sum_ == Sum::refuted) return;
  double foretold = 0;
  double changes = 0;
  size_t changed = 0;
  std::optional<size_t> unknown;
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (std::isnan(base_[i]) != std::isnan(individual.values[i])) return;
    if (!lines_[i]) continue;
    const auto value = lines_[i]->value_at(place_of(i, individual.values));
    if (!value && unknown) return;
    if (!value) unknown = i;
    foretold += value.value_or(0);
    changes += std::abs(value.value_or(0));
    changed += value.value_or(0) != 0 ? 1 : 0;
  }
  const double change = individual.counts() ? individual.loss - base_loss_ : std::numeric_limits<double>::infinity();
  if (unknown && (changed == 0 || sum_ == Sum::holds)) {
    lines_[*unknown]->know(place_of(*unknown, individual.values), change - foretold);
    if (sum_ == Sum::holds && same_values(individual.values, least())) least_ = individual.values;
  }
  if (sum_ != Sum::untested || test_.empty() || !same_values(individual.values, test_)) return;
  sum_ = changed > 1 && std::abs(change - foretold) <= as_foretold * changes ? Sum::holds : Sum::refuted;
}

void SeparableSearch::begin(const Individual& best) {
  base_ = least_ = best.values;
  base_loss_ = best.loss;
  lines_.resize(space_.size());
  for (size_t i = 0; i < space_.size(); ++i) {
    if (std::isnan(base_[i])) continue;
    lines_[i].emplace([&space = space_, i](double place) { return space.to_unit(i, space.from_unit(i, place)); });
    lines_[i]->know(place_of(i, base_), 0);
  }
}

std::optional<std::vector<double>> SeparableSearch::test() const {
  std::vector<double> values = base_;
  size_t moved = 0;
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (!lines_[i]) continue;
    if (!lines_[i]->knows_ends()) return std::nullopt;
    const auto place = lines_[i]->least_place_but(place_of(i, base_));
    if (!place) continue;
    move(values, i, *place);
    ++moved;
  }
  return moved > 1 ? std::optional(values) : std::nullopt;
}

std::vector<double> SeparableSearch::least() const {
  std::vector<double> values = base_;
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i]) move(values, i, lines_[i]->least_place());
  }
  return values;
}

void SeparableSearch::move(std::vector<double>& values, size_t parameter, double place) const {
  values[parameter] = space_.from_unit(parameter, place);
  space_.repair(values);
}

}  // namespace tw::search
