// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/planning/recompute.hpp>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

struct PipelineOptions {
  Schedule schedule;  ///< each of its devices stands for one or several ranks
  /// Number of ranks of each device of the schedule, and so of each stage; empty: one each. The first ranks belong to device 0, the next to device 1,
  /// and so on.
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
