// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "builders.hpp"

namespace tw::algorithms {

// If the number of ranks is no power of two, the first few give their data to a neighbour and get the result back. Both partners of a step add in the
// order of their ranks, so that all ranks end with the same bits.
Plan recursive_doubling_allreduce(const Task& task) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(task.ranks)));
  const int given_away = task.ranks - power;  // ranks 0, 2, 4...; ranks 1, 3, 5... have two roles
  const bool has_pair = task.rank < 2 * given_away;
  const bool gives = has_pair && task.rank % 2 == 0;
  const Run all{Area::output, 0};
  const Run other{Area::scratch, 0};
  Plan plan{.blocks = 1, .scratch_slots = 1, .steps = {}};
  if (gives) {
    plan.steps.push_back({{{task.rank + 1, all}}, {}, {}});
    plan.steps.push_back({{}, {{task.rank + 1, all}}, {}});
    return plan;
  }
  if (has_pair) plan.steps.push_back({{}, {{task.rank - 1, other}}, {reduce(other, all, all)}});
  const int place = has_pair ? task.rank / 2 : task.rank - given_away;
  for (int distance = 1; distance < power; distance *= 2) {
    const int partner = place ^ distance;
    const int peer = partner < given_away ? 2 * partner + 1 : partner + given_away;
    const LocalOperation sum = partner < place ? reduce(other, all, all) : reduce(all, other, all);
    plan.steps.push_back({{{peer, all}}, {{peer, other}}, {sum}});
  }
  if (has_pair) plan.steps.push_back({{{task.rank - 1, all}}, {}, {}});
  return plan;
}

}  // namespace tw::algorithms
