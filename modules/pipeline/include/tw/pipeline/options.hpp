// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/planning/recompute.hpp>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

struct PipelineOptions {
  Schedule schedule;  ///< stage i runs on device i, which stands for all replicas of stage i
  /// Number of ranks of each stage; empty: one each. The first ranks belong to stage 0, the next to stage 1, and so on.
  std::vector<int> replicas = {};
  std::vector<Recompute> recompute = {};  ///< recomputation of each stage; empty: none. In a pipeline of blocks, each block is a segment
  uint64_t seed = 0;                      ///< seed of the random numbers drawn in run() and forward()

  /// @throws ContractError naming the wrong field, or the reason why the schedule cannot run.
  void validate() const;
  /// Total number of ranks: the sum of `replicas`.
  int ranks() const;
};
/// Visits all fields except the schedule.
void visit(PipelineOptions& options, OptionVisitor& visitor);

}  // namespace tw::pipeline
