// SPDX-License-Identifier: Apache-2.0
// The stages of each rank, and the rows of a batch that each rank processes. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
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

/// The ranks and the stages of each device of a schedule. A device stands for one or several ranks, its replicas, which divide the rows of each
/// micro-batch. Consecutive ranks belong to a device: first those of device 0, then those of device 1, and so on.
class StageRanks {
 public:
  /// @param replicas number of replicas of each device, at least 1. @param device_of_stages the device of each stage; empty: stage i is on device i
  explicit StageRanks(std::vector<int> replicas, std::vector<int> device_of_stages = {});

  int stages() const noexcept { return static_cast<int>(device_of_stages_.size()); }
  int devices() const noexcept { return static_cast<int>(replicas_.size()); }
  int device_of_stage(int stage) const { return device_of_stages_.at(static_cast<size_t>(stage)); }
  /// The stages of a device, ascending.
  const std::vector<int>& stages_of(int device) const { return stages_of_.at(static_cast<size_t>(device)); }
  /// "stage 2" or "stages 1, 2": the stages of a device, for messages.
  std::string stage_names(int device) const;

  int replicas(int device) const { return replicas_.at(static_cast<size_t>(device)); }
  int first_rank(int device) const { return first_.at(static_cast<size_t>(device)); }
  int device_of(int rank) const;
  int replica_of(int rank) const { return rank - first_rank(device_of(rank)); }
  /// Whether `stage` exists and is on the rank's device.
  bool has(int rank, int stage) const { return stage >= 0 && stage < stages() && device_of_stage(stage) == device_of(rank); }

  /// The rows of a micro-batch that `rank` processes: its replica's part.
  Rows share(Rows micro_batch, int rank) const;
  /// The ranks of `stage` that process some of the rows `mine` of `micro_batch`, in row order. Empty for a stage that does not exist.
  std::vector<Peer> peers(int stage, Rows micro_batch, Rows mine) const;

 private:
  std::vector<int> replicas_;
  std::vector<int> device_of_stages_;
  std::vector<int> first_;                   // by device
  std::vector<std::vector<int>> stages_of_;  // by device
};

}  // namespace tw::pipeline
