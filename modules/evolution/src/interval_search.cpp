// SPDX-License-Identifier: Apache-2.0
#include "interval_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace tw::search {
namespace {

constexpr size_t most_places = 500;  // after which others may be better at it
constexpr double resolved = 1e-9;    // distances that are not looked into
constexpr double aimed = 1e-15;      // the gain, as a share of the spread of values: what rounding leaves

}  // namespace

void IntervalSearch::know(double place, double value) {
  in_flight_.erase(place);
  if (!known_.emplace(place, value).second) return;
  if (known_.size() == 1 || value < lowest_) {
    least_ = place;
    lowest_ = value;
  }
  if (std::isfinite(value)) highest_ = std::max(highest_, value);
}

std::optional<double> IntervalSearch::value_at(double place) const {
  const auto found = known_.find(place);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> IntervalSearch::least_place_but(double excluded) const {
  std::optional<double> least;
  double least_value = std::numeric_limits<double>::infinity();
  for (const auto& [place, value] : known_) {
    if (place == excluded || !(value < least_value)) continue;
    least = place;
    least_value = value;
  }
  return least;
}

std::optional<double> IntervalSearch::next(size_t rank) {
  for (const double end : {nearest_(0), nearest_(1)}) {
    if (is_new(end)) return begin(end);
  }
  if (known_.size() + in_flight_.size() >= most_places) return std::nullopt;
  const auto intervals = by_difficulty();
  if (intervals.empty()) return std::nullopt;
  const auto left = intervals[std::min(rank, intervals.size() - 1)];
  const auto right = std::next(left);
  if ((least_ == left->first || least_ == right->first) && !std::exchange(halves_, !halves_)) {
    if (const auto place = vertex()) return begin(*place);
  }
  return begin(nearest_((left->first + right->first) / 2));
}

std::vector<IntervalSearch::Points::const_iterator> IntervalSearch::by_difficulty() const {
  if (known_.empty()) return {};
  const double aim = lowest_ - aimed * (highest_ - lowest_);
  std::vector<std::tuple<double, double, Points::const_iterator>> ranked;
  for (auto left = known_.begin(), right = std::next(left); right != known_.end(); ++left, ++right) {
    const double width = right->first - left->first;
    const auto inside = in_flight_.upper_bound(left->first);
    const bool is_being_split = inside != in_flight_.end() && *inside < right->first;
    if (width < 2 * resolved || is_being_split || !is_new(nearest_((left->first + right->first) / 2))) continue;
    const double difficulty = (std::sqrt(left->second - aim) + std::sqrt(right->second - aim)) / width;
    ranked.emplace_back(std::isnan(difficulty) ? std::numeric_limits<double>::infinity() : difficulty, -width, left);
  }
  std::ranges::sort(ranked, {}, [](const auto& each) { return std::pair(std::get<0>(each), std::get<1>(each)); });
  std::vector<Points::const_iterator> intervals;
  for (const auto& each : ranked) intervals.push_back(std::get<2>(each));
  return intervals;
}

std::optional<double> IntervalSearch::vertex() const {
  const auto least = known_.find(least_);
  if (least == known_.begin() || std::next(least) == known_.end()) return std::nullopt;
  const auto [x0, f0] = *std::prev(least);
  const auto [x1, f1] = *least;
  const auto [x2, f2] = *std::next(least);
  const double left = (x1 - x0) * (f2 - f1);
  const double right = (x2 - x1) * (f0 - f1);
  const double vertex = x1 - ((x1 - x0) * left - (x2 - x1) * right) / (2 * (left + right));
  if (!(vertex > x0 && vertex < x2 && std::abs(vertex - x1) >= resolved)) return std::nullopt;
  const double place = nearest_(vertex);
  return is_new(place) ? std::optional(place) : std::nullopt;
}

}  // namespace tw::search
