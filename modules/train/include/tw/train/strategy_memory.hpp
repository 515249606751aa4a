// SPDX-License-Identifier: Apache-2.0
// The memory of a rank by strategy, predicted from sizes and options; docs/memory.md. Pure.
#pragma once
#include <cstdint>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/train/memory.hpp>
#include <tw/train/mesh_sizes.hpp>
#include <vector>

namespace tw::train {

/// Sizes of a model, or of this rank's part of one.
struct ModelMemory {
  std::vector<TensorSpec> trained = {};  ///< trained parameters
  int64_t frozen_bytes = 0;              ///< bytes of all other parameters
  int64_t buffer_bytes = 0;
  int state_tensors = 0;    ///< tensors of optimizer state per parameter, of its size
  int passing_tensors = 0;  ///< temporary tensors per parameter while the optimizer updates it
};

/// Bytes of a rank.
struct StrategyMemory {
  MemoryByUse kept;                 ///< kept from step to step, with the buffers to gather and reduce in; no activations
  bool gradients_are_kept = false;  ///< whether gradients have their memory from the beginning; otherwise a backward pass allocates it
  int64_t backward = 0;             ///< maximum of further buckets during a backward pass
  int64_t update = 0;               ///< maximum of temporary tensors during an update, when activations are gone
  int64_t checkpoint = 0;           ///< copy of a checkpoint; kept from the first checkpoint on
  int64_t gathered = 0;             ///< what rank 0 gathers when it saves the best model
};

/// @param mesh all its ranks on one node. @param model this rank's part, if several ranks hold one model together
StrategyMemory strategy_memory(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh, const ModelMemory& model);

}  // namespace tw::train
