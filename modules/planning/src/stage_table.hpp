// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "stage_search.hpp"

namespace tw::pipeline {

/// Costs of all ranges of blocks for all useful numbers of replicas, and how many micro-batches in flight they can hold. Computed once and looked up
/// in every step of the search.
class StageTable {
 public:
  StageTable(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

  int blocks() const noexcept { return blocks_; }
  const std::vector<int>& replicas() const noexcept { return replicas_; }
  /// Null if the range does not fit in memory. @param which index in replicas()
  const SearchCost* find(size_t which, int begin, int end, int in_flight) const {
    const Entry& entry = entries_[index(which, begin, end)];
    if (in_flight <= entry.kept.limit) return &entry.kept.cost;
    return in_flight <= entry.recomputed.limit ? &entry.recomputed.cost : nullptr;
  }

 private:
  struct Limited {
    SearchCost cost;
    int limit = 0;  // most micro-batches in flight
  };
  struct Entry {
    Limited kept;        // without recomputation
    Limited recomputed;  // full or selective recomputation, whichever can hold more
  };
  size_t index(size_t which, int begin, int end) const {
    const auto blocks = static_cast<size_t>(blocks_);
    return (which * blocks + static_cast<size_t>(begin)) * blocks + static_cast<size_t>(end - 1);
  }

  int blocks_;
  std::vector<int> replicas_;
  std::vector<Entry> entries_;
};

}  // namespace tw::pipeline
