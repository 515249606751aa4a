// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/pareto.hpp>

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>

namespace tw::search {
namespace {

/// Order by violation, objectives, and trial: an individual that dominates another comes before it.
bool comes_before(const Individual* a, const Individual* b) {
  if (a->violation != b->violation) return a->violation < b->violation;
  const ObjectiveView x = a->all_objectives(), y = b->all_objectives();
  const auto order = std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
  return order != 0 ? order < 0 : a->trial < b->trial;
}

/// @param front individuals that come before `next`, in this order
bool is_dominated(const std::vector<const Individual*>& front, const Individual& next) {
  // With two objectives, the last one of the front has the least second objective, and no first objective in the front is larger than that of `next`.
  if (next.all_objectives().size() <= 2) return dominates(*front.back(), next);
  return std::any_of(front.rbegin(), front.rend(), [&](const Individual* each) { return dominates(*each, next); });
}

}  // namespace

bool dominates(ObjectiveView a, ObjectiveView b) {
  bool is_better = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
    is_better = is_better || a[i] < b[i];
  }
  return is_better;
}

bool dominates(const Individual& a, const Individual& b) {
  if (a.violation != b.violation) return a.violation < b.violation;
  return a.violation == 0 && dominates(a.all_objectives(), b.all_objectives());
}

std::vector<size_t> front_numbers(std::span<const Individual* const> individuals) {
  std::vector<size_t> order(individuals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, comes_before, [&](size_t i) { return individuals[i]; });
  std::vector<std::vector<const Individual*>> fronts;
  std::vector<size_t> numbers(individuals.size());
  for (const size_t i : order) {
    // An individual that is dominated in one front is dominated in all earlier ones.
    const auto front = std::ranges::partition_point(fronts, [&](const auto& each) { return is_dominated(each, *individuals[i]); });
    numbers[i] = static_cast<size_t>(front - fronts.begin());
    (front == fronts.end() ? fronts.emplace_back() : *front).push_back(individuals[i]);
  }
  return numbers;
}

std::vector<double> crowding_distances(std::span<const ObjectiveView> points) {
  std::vector<double> distances(points.size(), 0);
  if (points.empty()) return distances;
  std::vector<size_t> order(points.size());
  for (size_t objective = 0; objective < points.front().size(); ++objective) {
    const auto value = [&](size_t i) { return points[i][objective]; };
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, value);
    distances[order.front()] = distances[order.back()] = std::numeric_limits<double>::infinity();
    const double range = value(order.back()) - value(order.front());
    if (!(range > 0 && std::isfinite(range))) continue;
    for (size_t k = 1; k + 1 < order.size(); ++k) distances[order[k]] += (value(order[k + 1]) - value(order[k - 1])) / range;
  }
  return distances;
}

std::vector<const Individual*> front_of(std::span<const Individual> individuals) {
  std::vector<const Individual*> sorted;
  for (const Individual& each : individuals) {
    if (each.has_comparable_loss()) sorted.push_back(&each);
  }
  std::ranges::sort(sorted, comes_before);
  std::vector<const Individual*> front;
  for (const Individual* each : sorted) {
    const bool repeats = !front.empty() && std::ranges::equal(front.back()->all_objectives(), each->all_objectives());
    if (!repeats && (front.empty() || !is_dominated(front, *each))) front.push_back(each);
  }
  return front;
}

}  // namespace tw::search
