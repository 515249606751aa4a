// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <tw/algorithms/plan.hpp>
#include <tw/base/contract.hpp>

#include "builders.hpp"

namespace tw::algorithms {
namespace {

struct Entry {
  Algorithm algorithm;
  Collective collective;
  Plan (*build)(const Task& task);
};

constexpr std::array entries{
    Entry{Algorithm::ring, Collective::allreduce, ring_allreduce},
    Entry{Algorithm::ring, Collective::reduce_scatter, ring_reduce_scatter},
    Entry{Algorithm::ring, Collective::allgather, ring_allgather},
    Entry{Algorithm::recursive_doubling, Collective::allreduce, recursive_doubling_allreduce},
    Entry{Algorithm::circulant, Collective::allreduce, circulant_allreduce},
    Entry{Algorithm::circulant, Collective::reduce_scatter, circulant_reduce_scatter},
    Entry{Algorithm::circulant, Collective::allgather, circulant_allgather},
    Entry{Algorithm::tree, Collective::broadcast, tree_broadcast},
    Entry{Algorithm::tree, Collective::reduce, tree_reduce},
    Entry{Algorithm::chain, Collective::broadcast, chain_broadcast},
    Entry{Algorithm::chain, Collective::reduce, chain_reduce},
    Entry{Algorithm::double_tree, Collective::broadcast, double_tree_broadcast},
    Entry{Algorithm::double_tree, Collective::reduce, double_tree_reduce},
    Entry{Algorithm::double_tree, Collective::allreduce, double_tree_allreduce},
    Entry{Algorithm::pairwise, Collective::alltoall, pairwise_alltoall},
    Entry{Algorithm::bruck, Collective::alltoall, bruck_alltoall},
    Entry{Algorithm::bruck, Collective::barrier, dissemination_barrier},
};

const Entry* find(Algorithm algorithm, Collective collective) noexcept {
  for (const Entry& entry : entries) {
    if (entry.algorithm == algorithm && entry.collective == collective) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::recursive_doubling: return "recursive_doubling";
    case Algorithm::circulant: return "circulant";
    case Algorithm::tree: return "tree";
    case Algorithm::chain: return "chain";
    case Algorithm::double_tree: return "double_tree";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::bruck: return "bruck";
  }
  return "";
}

bool can(Algorithm algorithm, Collective collective) noexcept { return find(algorithm, collective) != nullptr; }

Plan make_plan(Algorithm algorithm, const Task& task) {
  const Entry* entry = find(algorithm, task.collective);
  TW_EXPECTS(entry != nullptr, "the algorithm '", name_of(algorithm), "' does not implement ", name_of(task.collective));
  TW_EXPECTS(task.ranks > 0 && task.rank >= 0 && task.rank < task.ranks && task.root >= 0 && task.root < task.ranks, "there is no plan for rank ",
             task.rank, " of ", task.ranks, " with root ", task.root);
  TW_EXPECTS(task.pipelined > 0, "the number of blocks of a tensor must be at least 1, got ", task.pipelined);
  return entry->build(task);
}

}  // namespace tw::algorithms
