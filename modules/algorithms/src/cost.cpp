// SPDX-License-Identifier: Apache-2.0
#include "cost.hpp"
#include <algorithm>
#include <bit>
#include <tw/base/contract.hpp>

#include "builders.hpp"

namespace tw::algorithms {
namespace {

Cost of_ring_or_circulant(int64_t steps, int64_t ranks, Collective collective) {
  const int64_t once = ranks - 1;
  const bool all = collective == Collective::allreduce;
  const int64_t moved = all ? 2 * once : once;
  return {.rounds = all ? 2 * steps : steps,
          .blocks = ranks,
          .sent = moved,
          .received = moved,
          .reduced = collective == Collective::allgather ? 0 : once};
}

// A number of ranks that is no power of two takes two more steps; ranks with two roles are the busiest.
Cost of_recursive_doubling(int ranks) {
  const int levels = std::bit_width(static_cast<unsigned>(ranks)) - 1;
  const int64_t more = std::has_single_bit(static_cast<unsigned>(ranks)) ? 0 : 1;
  return {.rounds = levels + 2 * more, .blocks = 1, .sent = levels + more, .received = levels + more, .reduced = levels + more};
}

Cost of_tree(int ranks, bool reduces) {
  const int64_t levels = levels_of(ranks);
  const int64_t once = ranks > 1 ? 1 : 0;
  if (!reduces) return {.rounds = levels, .blocks = 1, .sent = levels, .received = once, .reduced = 0};
  return {.rounds = levels, .blocks = 1, .sent = once, .received = levels, .reduced = levels};
}

Cost of_chain(int64_t ranks, int64_t blocks, bool reduces) {
  if (ranks == 1) return {.rounds = 0, .blocks = blocks};
  return {.rounds = ranks - 2 + blocks, .blocks = blocks, .sent = blocks, .received = blocks, .reduced = reduces ? blocks : 0};
}

// Each level takes a step, and each further block of a tree one more. With an odd number of blocks the first tree has one more than the second.
Cost of_double_tree(const Task& task) {
  const int64_t ranks = task.ranks, blocks = task.pipelined, of_tree = (blocks + 1) / 2;
  Cost cost{.rounds = 0, .blocks = blocks};
  if (ranks == 1) return cost;
  const int64_t levels = double_tree_levels(task);
  if (task.collective == Collective::allreduce) {
    cost.rounds = 2 * levels + of_tree - 1;
    // The busiest rank is an inner node of the first tree and a leaf of the second; from four ranks on it has two children and a parent.
    cost.sent = cost.received = blocks + (ranks >= 4 ? 2 : ranks == 3 ? 1 : 0) * of_tree;
    cost.reduced = (ranks >= 3 ? 2 : 1) * of_tree;
    return cost;
  }
  cost.rounds = levels + of_tree - 1;
  const int64_t inner = ranks >= 4 ? 2 * of_tree : blocks;  // for an inner node with two children, otherwise for the root
  const bool reduces = task.collective == Collective::reduce;
  cost.sent = reduces ? blocks : inner;
  cost.received = reduces ? inner : blocks;
  cost.reduced = reduces ? inner : 0;
  return cost;
}

Cost of_bruck(int64_t ranks) {
  Cost cost{.rounds = levels_of(static_cast<int>(ranks)), .blocks = ranks};
  for (int64_t bit = 1; bit < ranks; bit *= 2) cost.sent += with_bit(ranks, bit);
  cost.received = cost.sent;
  return cost;
}

}  // namespace

Cost cost_of(Algorithm algorithm, const Task& task) {
  TW_EXPECTS(can(algorithm, task.collective), "the algorithm '", name_of(algorithm), "' does not implement ", name_of(task.collective));
  const int64_t ranks = task.ranks;
  const bool reduces = task.collective == Collective::reduce;
  switch (algorithm) {
    case Algorithm::ring: return of_ring_or_circulant(ranks - 1, ranks, task.collective);
    case Algorithm::circulant: return of_ring_or_circulant(levels_of(task.ranks), ranks, task.collective);
    case Algorithm::recursive_doubling: return of_recursive_doubling(task.ranks);
    case Algorithm::tree: return of_tree(task.ranks, reduces);
    case Algorithm::chain: return of_chain(ranks, task.pipelined, reduces);
    case Algorithm::double_tree: return of_double_tree(task);
    case Algorithm::pairwise: return {.rounds = ranks - 1, .blocks = ranks, .sent = ranks - 1, .received = ranks - 1, .reduced = 0};
    case Algorithm::bruck: return task.collective == Collective::barrier ? Cost{.rounds = levels_of(task.ranks), .blocks = 0} : of_bruck(ranks);
  }
  return {};
}

}  // namespace tw::algorithms
