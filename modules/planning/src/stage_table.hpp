// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/numbers.hpp>

#include "stage_search.hpp"

namespace tw::pipeline {

/// Costs of all ranges of blocks for all useful numbers of replicas, and how many micro-batches in flight they can hold. Computed once and looked up
/// in every step of the search.
class StageTable {
 public:
  /// @param good_enough an objective; leaves out ranges that alone take longer
  StageTable(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
             double good_enough = infinity);

  int blocks() const noexcept { return blocks_; }
  const std::vector<int>& replicas() const noexcept { return replicas_; }
  /// The last end of a range from `begin` on that is not left out; `begin` if there is none.
  int last_end(size_t which, int begin) const { return last_ends_[which * static_cast<size_t>(blocks_) + static_cast<size_t>(begin)]; }
  /// Whether the range may be a stage whose load is at most `bound`.
  bool is_within(size_t which, int begin, int end, double bound) const {
    const Entry& entry = entries_[index(which, begin, end)];
    return (entry.kept.limit > 0 && entry.kept.cost.load <= bound) || (entry.recomputed.limit > 0 && entry.recomputed.cost.load <= bound);
  }
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
  /// The entry of a range. @param stage without recomputation
  static Entry entry_of(const StageLoad& load, const StageSetting& stage, bool is_last, const SearchSetting& setting, const Cluster& cluster,
                        const PlanOptions& options);
  size_t index(size_t which, int begin, int end) const {
    const auto blocks = static_cast<size_t>(blocks_);
    return (which * blocks + static_cast<size_t>(begin)) * blocks + static_cast<size_t>(end - 1);
  }

  int blocks_;
  std::vector<int> replicas_;
  std::vector<Entry> entries_;
  std::vector<int> last_ends_;  // by number of replicas and begin
};

}  // namespace tw::pipeline
