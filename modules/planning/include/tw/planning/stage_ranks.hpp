// SPDX-License-Identifier: Apache-2.0
// The stage of each rank, and the rows of a batch that each rank processes. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tw::pipeline {

/// A range of consecutive rows: [begin, end).
struct Rows {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const noexcept { return end - begin; }
  bool operator==(const Rows&) const = default;
};

/// Part i, from 0, of n nearly equal parts of `all`. If n does not divide the number of rows, the first parts have one row more; the last
/// parts are empty if n exceeds that number.
inline Rows part_of(Rows all, int64_t n, int64_t i) {
  const auto begin = [&](int64_t k) { return all.begin + all.count() / n * k + std::min(k, all.count() % n); };
  return {begin(i), begin(i + 1)};
}

/// A rank of a neighbouring stage, and the rows that both this rank and that one process.
struct Peer {
  int rank = 0;
  Rows rows;

  bool operator==(const Peer&) const = default;
};

/// Assigns consecutive ranks to stages: first the ranks of stage 0, then those of stage 1, and so on.
class StageRanks {
 public:
  /// @param replicas number of replicas of each stage, at least 1
  explicit StageRanks(std::vector<int> replicas);

  int stages() const noexcept { return static_cast<int>(replicas_.size()); }
  int replicas(int stage) const { return replicas_.at(static_cast<size_t>(stage)); }
  int first_rank(int stage) const { return first_.at(static_cast<size_t>(stage)); }
  int stage_of(int rank) const;
  int replica_of(int rank) const { return rank - first_rank(stage_of(rank)); }

  /// The rows of a micro-batch that `rank` processes: its replica's part.
  Rows share(Rows micro_batch, int rank) const;
  /// The ranks of `stage` that process some of the rows `mine` of `micro_batch`, in row order. Empty for a stage that does not exist.
  std::vector<Peer> peers(int stage, Rows micro_batch, Rows mine) const;

 private:
  std::vector<int> replicas_;
  std::vector<int> first_;
};

}  // namespace tw::pipeline
