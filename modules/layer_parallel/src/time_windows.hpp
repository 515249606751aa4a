// SPDX-License-Identifier: Apache-2.0
// Sums over windows of time, of tensors that ranks have in blocks of steps.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Windows next to each other: window i is of the steps first + i * length to first + (i + 1) * length - 1.
struct Windows {
  int64_t first = 0;
  int64_t length = 1;
  int64_t count = 0;

  int64_t begin(int64_t window) const noexcept { return first + window * length; }
  /// Those that have steps of `block`.
  LevelPlan::Range overlapping(const LevelPlan::Range& block) const noexcept;
};

/// The sum over each window of this rank, [count, ...]. Collective. @param values of the steps of this rank's block, [steps, ...]; the same shape but
/// for these on every rank @param blocks by rank @param windows by rank
at::Tensor window_sums(const Communicator& comm, const at::Tensor& values, const std::vector<LevelPlan::Range>& blocks,
                       const std::vector<Windows>& windows);

}  // namespace tw::layer_parallel
