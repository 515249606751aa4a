// SPDX-License-Identifier: Apache-2.0
// The binomial tree, with places counted from the root. A place's parent is its number without the lowest set bit. Its children are its number plus
// one lower bit each.
#include "builders.hpp"

namespace tw::algorithms {
namespace {

struct Place {
  explicit Place(const Task& task) : ranks(task.ranks), root(task.root), number(around(task.rank - task.root, task.ranks)) {}

  bool is_root() const { return number == 0; }
  int parent() const { return rank_of(number & (number - 1)); }

  /// The child with the most ranks below it first.
  std::vector<int> children() const {
    std::vector<int> all;
    const int below = is_root() ? 1 << levels_of(ranks) : number & -number;
    for (int bit = below / 2; bit > 0; bit /= 2) {
      if (number + bit < ranks) all.push_back(rank_of(number + bit));
    }
    return all;
  }

  int rank_of(int place) const { return around(place + root, ranks); }

  const int ranks, root, number;
};

}  // namespace

Plan tree_broadcast(const Task& task) {
  const Place place(task);
  const Run all{Area::output, 0};
  Plan plan;
  if (!place.is_root()) plan.steps.push_back({{}, {{place.parent(), all}}, {}});
  for (const int child : place.children()) plan.steps.push_back({{{child, all}}, {}, {}});
  return plan;
}

// The child with the fewest ranks below it is ready first. Ranks other than the root add in scratch.
Plan tree_reduce(const Task& task) {
  const Place place(task);
  const Run sum = place.is_root() ? Run{Area::output, 0} : Run{Area::scratch, 0, 1, 1};
  const Run got{Area::scratch, 0};
  Run have{Area::input, 0};
  Plan plan{.blocks = 1, .scratch_slots = 2, .steps = {}};
  const std::vector<int> children = place.children();
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    plan.steps.push_back({{}, {{*child, got}}, {reduce(got, have, sum)}});
    have = sum;
  }
  if (!place.is_root()) plan.steps.push_back({{{place.parent(), have}}, {}, {}});
  if (task.ranks == 1) plan.steps.push_back({{}, {}, {copy(have, sum)}});
  return plan;
}

}  // namespace tw::algorithms
