// SPDX-License-Identifier: Apache-2.0
// A point adds the box between itself and the reference point, minus the part that other points dominate. That part is the same problem again, with
// the other points moved to the border of the box, where many of them become dominated.
#include <tw/evolution/hypervolume.hpp>

#include <algorithm>
#include <functional>
#include <tw/base/contract.hpp>

namespace tw::search {
namespace {

using Points = std::vector<std::vector<double>>;

bool is_within(ObjectiveView point, ObjectiveView reference) { return std::ranges::equal(point, reference, std::less()); }

double box(ObjectiveView point, ObjectiveView reference) {
  double volume = 1;
  for (size_t i = 0; i < point.size(); ++i) volume *= reference[i] - point[i];
  return volume;
}

/// The non-dominated points, each once, by ascending objectives.
Points without_dominated(Points points) {
  std::ranges::sort(points);
  Points kept;
  for (std::vector<double>& each : points) {
    const auto covers = [&](const std::vector<double>& other) { return std::ranges::equal(other, each, std::less_equal()); };
    if (std::any_of(kept.rbegin(), kept.rend(), covers)) continue;
    kept.push_back(std::move(each));
  }
  return kept;
}

double volume_of(const Points& front, ObjectiveView reference);

/// @param others points, which need not be on a front
double exclusive(ObjectiveView point, std::span<const std::vector<double>> others, ObjectiveView reference) {
  Points limited;
  for (const std::vector<double>& other : others) {
    std::vector<double>& each = limited.emplace_back(other);
    for (size_t i = 0; i < each.size(); ++i) each[i] = std::max(each[i], point[i]);
  }
  return box(point, reference) - volume_of(without_dominated(std::move(limited)), reference);
}

/// @param front non-dominated points, by ascending objectives
double volume_of(const Points& front, ObjectiveView reference) {
  double volume = 0;
  if (reference.size() <= 2) {
    // Ascending first objectives mean descending second ones: each point is a step of a staircase.
    double above = reference.back();
    for (const std::vector<double>& each : front) {
      volume += reference.size() == 1 ? reference[0] - each[0] : (reference[0] - each[0]) * (above - each[1]);
      above = each.back();
    }
    return volume;
  }
  // Sweep over the first objective. Each point adds a slab, in which earlier points limit its box. The slab has one objective less.
  Points before;
  for (const ObjectiveView each : front) {
    volume += (reference[0] - each[0]) * exclusive(each.subspan(1), before, reference.subspan(1));
    before.emplace_back(each.begin() + 1, each.end());
  }
  return volume;
}

Points within(std::span<const ObjectiveView> points, ObjectiveView reference) {
  Points kept;
  for (const ObjectiveView each : points) {
    TW_EXPECTS(each.size() == reference.size(), "a point has ", each.size(), " objectives, but the reference point has ", reference.size());
    if (is_within(each, reference)) kept.emplace_back(each.begin(), each.end());
  }
  return kept;
}

}  // namespace

double hypervolume(std::span<const ObjectiveView> points, ObjectiveView reference) {
  TW_EXPECTS(!reference.empty(), "the reference point needs at least one objective");
  return volume_of(without_dominated(within(points, reference)), reference);
}

double exclusive_hypervolume(ObjectiveView point, std::span<const ObjectiveView> others, ObjectiveView reference) {
  TW_EXPECTS(!reference.empty() && point.size() == reference.size(), "a point has ", point.size(), " objectives, but the reference point has ",
             reference.size());
  return is_within(point, reference) ? exclusive(point, within(others, reference), reference) : 0;
}

}  // namespace tw::search
