// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/memory_use.hpp>

namespace tw {

/// The memory that a rank needs in an update, in bytes by use; see ParallelModel::memory().
///
/// `kept` and `pass` are counted: memory of tensors as LibTorch's allocator reports it, and buffers that ranks share. Only the optimizer's part is
/// predicted, from its options. Not included: the batch, which is the caller's; memory of MPI; slots that ranks of a node share to exchange messages,
/// up to 1 MiB of a rank for each communicator; captured graphs and plans; code and scratch memory of libraries.
struct UpdateMemory {
  MemoryByUse kept;  ///< memory kept from update to update, including all gradients and the optimizer's state; no activations
  MemoryPeak pass;   ///< the moment of train_step() with the most memory: in the first update, or in a later one
  MemoryPeak step;   ///< the moment of the optimizer's step with the most memory

  /// The moment of an update with the most memory.
  const MemoryPeak& peak() const noexcept { return pass.held.together() < step.held.together() ? step : pass; }
};

}  // namespace tw
