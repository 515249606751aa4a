// SPDX-License-Identifier: Apache-2.0
// Blocks travel along the ranks, counted from the root: while a rank forwards one block, it receives the next.
#include "builders.hpp"

namespace tw::algorithms {

Plan chain_broadcast(const Task& task) {
  const int place = around(task.rank - task.root, task.ranks);
  const bool receives = place > 0, sends = place < task.ranks - 1;
  Plan plan{.blocks = task.pipelined, .scratch_slots = 0, .steps = {}};
  for (int64_t time = 0; time <= task.pipelined; ++time) {
    Step step;
    const int64_t passed_on = receives ? time - 1 : time;
    if (receives && time < task.pipelined) step.receives.push_back({around(task.rank - 1, task.ranks), {Area::output, time}});
    if (sends && passed_on >= 0 && passed_on < task.pipelined) step.sends.push_back({around(task.rank + 1, task.ranks), {Area::output, passed_on}});
    if (!step.receives.empty() || !step.sends.empty()) plan.steps.push_back(std::move(step));
  }
  return plan;
}

// Sums travel from the last rank to the root. A block is in one of two slots while the next one is received into the other.
Plan chain_reduce(const Task& task) {
  const int place = around(task.rank - task.root, task.ranks);
  const bool is_root = place == 0, receives = place < task.ranks - 1;
  Plan plan{.blocks = task.pipelined, .scratch_slots = 2, .steps = {}};
  const auto slot_of = [](int64_t block) { return Run{Area::scratch, block, 1, block % 2}; };
  for (int64_t time = 0; time <= task.pipelined; ++time) {
    Step step;
    const int64_t passed_on = receives ? time - 1 : time;
    if (receives && time < task.pipelined) {
      const Run own{Area::input, time};
      step.receives.push_back({around(task.rank + 1, task.ranks), slot_of(time)});
      step.local_operations.push_back(reduce(slot_of(time), own, is_root ? Run{Area::output, time} : slot_of(time)));
    }
    if (!is_root && passed_on >= 0 && passed_on < task.pipelined) {
      step.sends.push_back({around(task.rank - 1, task.ranks), receives ? slot_of(passed_on) : Run{Area::input, passed_on}});
    }
    if (!step.receives.empty() || !step.sends.empty()) plan.steps.push_back(std::move(step));
  }
  if (task.ranks == 1) plan.steps.push_back({{}, {}, {copy({Area::input, 0, plan.blocks}, {Area::output, 0, plan.blocks})}});
  return plan;
}

}  // namespace tw::algorithms
