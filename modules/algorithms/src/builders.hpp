// SPDX-License-Identifier: Apache-2.0
// One function per algorithm and collective; plans.cpp lists them.
#pragma once
#include <algorithm>
#include <bit>
#include <tw/algorithms/plan.hpp>

namespace tw::algorithms {

Plan ring_allreduce(const Task& task);
Plan ring_reduce_scatter(const Task& task);
Plan ring_allgather(const Task& task);

Plan recursive_doubling_allreduce(const Task& task);

// J. L. Traeff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms" (2024): takes the same steps and bytes on any number of
// ranks as halving and doubling (Rabenseifner) on a power of two. The all-gather is Bruck's, with blocks stored at their final places.
Plan circulant_allreduce(const Task& task);
Plan circulant_reduce_scatter(const Task& task);
Plan circulant_allgather(const Task& task);

Plan tree_broadcast(const Task& task);
Plan tree_reduce(const Task& task);

Plan chain_broadcast(const Task& task);
Plan chain_reduce(const Task& task);

Plan double_tree_broadcast(const Task& task);
Plan double_tree_reduce(const Task& task);
Plan double_tree_allreduce(const Task& task);

Plan pairwise_alltoall(const Task& task);
Plan bruck_alltoall(const Task& task);
Plan dissemination_barrier(const Task& task);

/// Messages that the busiest node sends to or receives from other nodes while a block goes through each of the two trees.
int64_t double_tree_crossing_edges(int nodes, int ranks_per_node, Collective collective);

// Shared helpers.

/// `number` modulo `ranks`, never negative.
constexpr int around(int number, int ranks) { return ((number % ranks) + ranks) % ranks; }

/// Bits needed for numbers below `ranks`: the logarithm, rounded up.
constexpr int levels_of(int ranks) {
  int levels = 0;
  while ((int64_t{1} << levels) < ranks) ++levels;
  return levels;
}

/// Edges from the deepest leaf of either tree to the root above both; in an all-reduce, to the tree's own top.
constexpr int double_tree_levels(const Task& task) {
  return task.collective == Collective::allreduce ? std::bit_width(static_cast<unsigned>(task.ranks)) - 1 : levels_of(task.ranks);
}

/// The number of integers from 0 to ranks - 1 with this bit set.
constexpr int64_t with_bit(int64_t ranks, int64_t bit) { return ranks / (2 * bit) * bit + std::max<int64_t>(0, ranks % (2 * bit) - bit); }

inline LocalOperation copy(const Run& a, const Run& to) { return {LocalOperation::Kind::copy, a, {}, to}; }
inline LocalOperation reduce(const Run& a, const Run& b, const Run& to) { return {LocalOperation::Kind::reduce, a, b, to}; }

}  // namespace tw::algorithms
