// SPDX-License-Identifier: Apache-2.0
// All-to-all, and the barrier, which is an all-to-all of no data.
#include "builders.hpp"

namespace tw::algorithms {

Plan pairwise_alltoall(const Task& task) {
  Plan plan{.blocks = task.ranks, .scratch_slots = 0, .steps = {}};
  plan.steps.push_back({{}, {}, {copy({Area::input, task.rank}, {Area::output, task.rank})}});
  for (int distance = 1; distance < task.ranks; ++distance) {
    const int to = around(task.rank + distance, task.ranks), from = around(task.rank - distance, task.ranks);
    plan.steps.push_back({{{to, {Area::input, to}}}, {{from, {Area::output, from}}}, {}});
  }
  return plan;
}

// J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems" (1997). Data that must
// travel `distance` ranks forward is in slot `distance`. In hop k it travels 2^k ranks forward if bit k of its distance is set, packed with all other
// data of that hop.
Plan bruck_alltoall(const Task& task) {
  const int ranks = task.ranks;
  const int64_t sent_from = ranks, got_at = sent_from + (ranks + 1) / 2;
  Plan plan{.blocks = ranks, .scratch_slots = got_at + (ranks + 1) / 2, .steps = {}};
  const auto at = [](int64_t slot, int64_t count = 1) { return Run{Area::scratch, 0, count, slot}; };
  Step& first = plan.steps.emplace_back();
  for (int distance = 0; distance < ranks; ++distance) {
    first.local_operations.push_back(copy({Area::input, around(task.rank + distance, ranks)}, at(distance)));
  }
  for (int hop = 1; hop < ranks; hop *= 2) {
    std::vector<int> travelling;
    for (int distance = 0; distance < ranks; ++distance) {
      if ((distance & hop) != 0) travelling.push_back(distance);
    }
    const auto count = static_cast<int64_t>(travelling.size());
    std::vector<LocalOperation>& before = plan.steps.back().local_operations;
    Step step{{{around(task.rank + hop, ranks), at(sent_from, count)}}, {{around(task.rank - hop, ranks), at(got_at, count)}}, {}};
    for (int64_t i = 0; i < count; ++i) {
      before.push_back(copy(at(travelling[static_cast<size_t>(i)]), at(sent_from + i)));
      step.local_operations.push_back(copy(at(got_at + i), at(travelling[static_cast<size_t>(i)])));
    }
    plan.steps.push_back(std::move(step));
  }
  for (int distance = 0; distance < ranks; ++distance) {
    plan.steps.back().local_operations.push_back(copy(at(distance), {Area::output, around(task.rank - distance, ranks)}));
  }
  return plan;
}

Plan dissemination_barrier(const Task& task) {
  Plan plan{.blocks = 0, .scratch_slots = 0, .steps = {}};
  for (int distance = 1; distance < task.ranks; distance *= 2) {
    const Run nothing{Area::output, 0, 0};
    plan.steps.push_back({{{around(task.rank + distance, task.ranks), nothing}}, {{around(task.rank - distance, task.ranks), nothing}}, {}});
  }
  return plan;
}

}  // namespace tw::algorithms
