// SPDX-License-Identifier: Apache-2.0
// All-gather: a rank starts with its own block. Once it has `have` consecutive blocks, beginning with its own, it sends them to rank - `have`, and
// receives the blocks of rank + `have`. Reduce-scatter is the same in reverse.
#include <algorithm>

#include "builders.hpp"

namespace tw::algorithms {
namespace {

/// A step of the all-gather: receives `count` blocks from rank + `distance`, beginning with that rank's own block.
struct Hop {
  int distance;
  int count;
};

std::vector<Hop> hops_of(int ranks) {
  std::vector<Hop> hops;
  for (int have = 1; have < ranks; have *= 2) hops.push_back({have, std::min(have, ranks - have)});
  return hops;
}

// Blocks `first` to first + count - 1, modulo `ranks`: one run or two. Scratch has a slot for each block.
std::vector<Run> runs_of(Area area, int first, int count, int ranks) {
  const int begin = around(first, ranks);
  const int before_end = std::min(count, ranks - begin);
  std::vector<Run> runs{{area, begin, before_end, area == Area::scratch ? begin : 0}};
  if (before_end < count) runs.push_back({area, 0, count - before_end, 0});
  return runs;
}

void add(std::vector<Message>& messages, int peer, const std::vector<Run>& runs) {
  for (const Run& run : runs) messages.push_back({peer, run});
}

void add_allgather(Plan& plan, const Task& task) {
  for (const Hop& hop : hops_of(task.ranks)) {
    Step& step = plan.steps.emplace_back();
    add(step.sends, around(task.rank - hop.distance, task.ranks), runs_of(Area::output, task.rank, hop.count, task.ranks));
    add(step.receives, around(task.rank + hop.distance, task.ranks), runs_of(Area::output, task.rank + hop.distance, hop.count, task.ranks));
  }
}

// Partial sums of all blocks are in `sums`; received blocks go to scratch from `slot` on. Each rank ends with the sum of its own block in `result`.
void add_reduce_scatter(Plan& plan, const Task& task, Area sums, int64_t slot, Area result) {
  std::vector<Hop> hops = hops_of(task.ranks);
  std::reverse(hops.begin(), hops.end());
  for (const Hop& hop : hops) {
    Step& step = plan.steps.emplace_back();
    const bool last = hop.distance == 1;
    add(step.sends, around(task.rank + hop.distance, task.ranks), runs_of(sums, task.rank + hop.distance, hop.count, task.ranks));
    int64_t at = slot;
    for (const Run& own : runs_of(sums, task.rank, hop.count, task.ranks)) {
      const Run got{Area::scratch, own.block, own.count, at};
      step.receives.push_back({around(task.rank - hop.distance, task.ranks), got});
      step.local_operations.push_back(reduce(got, own, last ? Run{result, own.block} : own));
      at += own.count;
    }
  }
}

}  // namespace

Plan circulant_allreduce(const Task& task) {
  Plan plan{.blocks = task.ranks, .scratch_slots = task.ranks / 2, .steps = {}};
  add_reduce_scatter(plan, task, Area::output, 0, Area::output);
  add_allgather(plan, task);
  return plan;
}

Plan circulant_reduce_scatter(const Task& task) {
  Plan plan{.blocks = task.ranks, .scratch_slots = task.ranks + task.ranks / 2, .steps = {}};
  if (task.ranks == 1) {
    plan.steps.push_back({{}, {}, {copy({Area::input, 0}, {Area::output, 0})}});
    return plan;
  }
  plan.steps.push_back({{}, {}, {copy({Area::input, 0, task.ranks}, {Area::scratch, 0, task.ranks, 0})}});
  add_reduce_scatter(plan, task, Area::scratch, task.ranks, Area::output);
  return plan;
}

Plan circulant_allgather(const Task& task) {
  Plan plan{.blocks = task.ranks, .scratch_slots = 0, .steps = {}};
  plan.steps.push_back({{}, {}, {copy({Area::input, task.rank}, {Area::output, task.rank})}});
  add_allgather(plan, task);
  return plan;
}

}  // namespace tw::algorithms
