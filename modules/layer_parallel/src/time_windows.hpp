// SPDX-License-Identifier: Apache-2.0
// Sums over windows of time, for tensors whose steps are spread over ranks in blocks.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Adjacent windows: window i has the steps first + i * length to first + (i + 1) * length - 1.
struct Windows {
  int64_t first = 0;
  int64_t length = 1;
  int64_t count = 0;

  int64_t begin(int64_t window) const noexcept { return first + window * length; }
  /// The windows that have steps in `block`.
  LevelPlan::Range overlapping(const LevelPlan::Range& block) const noexcept;
};

/// The sum over each window of this rank, [count, ...]. Collective. @param values this rank's block, [steps, ...]; all dimensions except the first
/// are the same on every rank @param blocks by rank @param windows by rank
at::Tensor window_sums(const Communicator& comm, const at::Tensor& values, const std::vector<LevelPlan::Range>& blocks,
                       const std::vector<Windows>& windows);

}  // namespace tw::layer_parallel
