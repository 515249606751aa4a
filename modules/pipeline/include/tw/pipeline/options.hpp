// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/gradients/shard_plan.hpp>
#include <tw/pipeline/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// What a stage keeps of a micro-batch from its forward to its backward pass.
enum class Recompute {
  none,  ///< all that autograd saves
  full,  ///< its inputs: the forward pass is made again before the backward pass, unless that follows at once. Of L stored tensors a micro-batch and
         ///< k micro-batches in flight, k + L are kept in place of k L. Outputs must not depend on buffers that the stage itself changes in training
};

struct PipelineOptions {
  Schedule schedule;                      ///< stage i on device i, which is all replicas of stage i
  std::vector<int> replicas = {};         ///< ranks of each stage; empty: one each. Ranks are those of stage 0, then those of stage 1, and so on
  std::vector<int64_t> blocks = {};       ///< blocks of each stage, where there are blocks; empty: as equal as can be, the first ones one more
  std::vector<Recompute> recompute = {};  ///< of each stage; empty: none
  uint64_t seed = 0;                      ///< of the random numbers that are drawn in run()
  /// Who has the gradients of a stage with several replicas. Unless all have them, a ShardedOptimizer on Pipeline::reducer() has to use them.
  Sharding sharding = Sharding::none;

  /// @throws ContractError naming the wrong field, or why the schedule does not run.
  void validate() const;
  /// The sum of `replicas`.
  int ranks() const;
};

}  // namespace tw::pipeline
