// SPDX-License-Identifier: Apache-2.0
// Partial sums travel round the ring, one per block: P - 1 steps bring each to the rank that owns it, P - 1 more to all others.
#include "builders.hpp"

namespace tw::algorithms {
namespace {

struct Ring {
  explicit Ring(const Task& task) : ranks(task.ranks), rank(task.rank), next(around(rank + 1, ranks)), previous(around(rank - 1, ranks)) {}

  /// The block whose owner is `distance` ranks before this one.
  int64_t block_behind(int distance) const { return around(rank - distance, ranks); }

  const int ranks, rank, next, previous;
};

// Every rank starts with the block owned `first` ranks before it, in its output.
void add_allgather(Plan& plan, const Ring& ring, int first) {
  for (int step = 0; step < ring.ranks - 1; ++step) {
    const Run given{Area::output, ring.block_behind(step + first)};
    const Run got{Area::output, ring.block_behind(step + first + 1)};
    plan.steps.push_back({{{ring.next, given}}, {{ring.previous, got}}, {}});
  }
}

}  // namespace

Plan ring_allreduce(const Task& task) {
  const Ring ring(task);
  Plan plan{.blocks = task.ranks, .scratch_slots = 1, .steps = {}};
  for (int step = 0; step < ring.ranks - 1; ++step) {
    const Run given{Area::output, ring.block_behind(step)};
    const Run own{Area::output, ring.block_behind(step + 1)};
    const Run got{Area::scratch, own.block};
    plan.steps.push_back({{{ring.next, given}}, {{ring.previous, got}}, {reduce(got, own, own)}});
  }
  add_allgather(plan, ring, -1);
  return plan;
}

// The input is not changed, so sums travel in scratch: one slot is sent while the other is received.
Plan ring_reduce_scatter(const Task& task) {
  const Ring ring(task);
  Plan plan{.blocks = task.ranks, .scratch_slots = 2, .steps = {}};
  Run given{Area::input, ring.block_behind(1)};
  if (ring.ranks == 1) plan.steps.push_back({{}, {}, {copy({Area::input, 0}, {Area::output, 0})}});
  for (int step = 0; step < ring.ranks - 1; ++step) {
    const Run own{Area::input, ring.block_behind(step + 2)};
    const Run got{Area::scratch, own.block, 1, step % 2};
    const bool last = step == ring.ranks - 2;
    const Run sum = last ? Run{Area::output, own.block} : got;
    plan.steps.push_back({{{ring.next, given}}, {{ring.previous, got}}, {reduce(got, own, sum)}});
    given = sum;
  }
  return plan;
}

Plan ring_allgather(const Task& task) {
  const Ring ring(task);
  Plan plan{.blocks = task.ranks, .scratch_slots = 0, .steps = {}};
  plan.steps.push_back({{}, {}, {copy({Area::input, ring.rank}, {Area::output, ring.rank})}});
  add_allgather(plan, ring, 0);
  return plan;
}

}  // namespace tw::algorithms
