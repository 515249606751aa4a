// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/gradients/shard_plan.hpp>
#include <tw/planning/recompute.hpp>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

struct PipelineOptions {
  Schedule schedule;                      ///< stage i on device i, which is all replicas of stage i
  std::vector<int> replicas = {};         ///< ranks of each stage; empty: one each. Ranks are those of stage 0, then those of stage 1, and so on
  std::vector<Recompute> recompute = {};  ///< of each stage; empty: none. The segments of a list of blocks are its blocks
  uint64_t seed = 0;                      ///< of the random numbers that are drawn in run()
  /// Which replicas of a stage hold its gradients. Unless all hold them, a ShardedOptimizer on Pipeline::reducer() has to use them.
  Sharding sharding = Sharding::none;

  /// @throws ContractError naming the wrong field, or why the schedule does not run.
  void validate() const;
  /// The sum of `replicas`.
  int ranks() const;
};
/// All but the schedule.
void visit(PipelineOptions& options, OptionVisitor& visitor);

}  // namespace tw::pipeline
