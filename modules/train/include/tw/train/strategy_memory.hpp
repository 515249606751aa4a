// SPDX-License-Identifier: Apache-2.0
// Predicts, from sizes and options, the memory that a rank needs with each strategy; see docs/memory.md. Pure.
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
  int state_tensors = 0;      ///< number of tensors of optimizer state per parameter, each as large as the parameter
  int temporary_tensors = 0;  ///< number of temporary tensors per parameter while the optimizer updates it
};

/// Bytes that a rank needs.
struct StrategyMemory {
  MemoryByUse kept;                 ///< memory kept from step to step, including the buffers for gathering and reducing; no activations
  bool gradients_are_kept = false;  ///< whether gradients always have memory; otherwise a backward pass allocates it
  int64_t backward = 0;             ///< maximum bytes of further buckets that exist during a backward pass
  int64_t update = 0;               ///< maximum bytes of temporary tensors during an update, after activations are freed
  int64_t checkpoint = 0;           ///< bytes of the copy that is written as a checkpoint; kept from the first checkpoint on
  int64_t best_model = 0;           ///< the same for the best model, which is written without the optimizer's state
  int64_t exported = 0;             ///< bytes of the largest tensor, which rank 0 reads when it exports the best model
};

/// Predicts the memory of a rank. @param mesh all of its ranks are assumed to be on one node. @param model this rank's part, if several ranks hold
/// one model together. With groups and parameter servers, the result is that of a group's first rank; the other ranks need less
StrategyMemory strategy_memory(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh, const ModelMemory& model);

}  // namespace tw::train
