// SPDX-License-Identifier: Apache-2.0
// What training takes of a rank's memory: docs/memory.md.
#pragma once
#include <cstdint>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/train/memory.hpp>
#include <tw/train/strategy_options.hpp>
#include <vector>

namespace tw::tool {

/// Of a model, or of this rank's part of one.
struct ModelMemory {
  std::vector<TensorSpec> trained = {};  ///< parameters
  int64_t frozen_bytes = 0;              ///< of the other parameters
  int64_t buffer_bytes = 0;
  int state_tensors = 0;    ///< that the optimizer keeps for each parameter, as large as it
  int passing_tensors = 0;  ///< that it makes for a parameter while it updates it
};

/// What a rank keeps from step to step by a strategy, room for what is gathered and reduced included; nothing of activations. Pure.
/// @param ranks of the data axis, all on one node
train::MemoryByUse kept_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model);

/// The most that an update takes on top of that when activations are gone, for a moment: of the optimizer's rule, of compressed gradients on their
/// way, of an exchange with servers. Pure.
int64_t update_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model);

/// What a rank copies before it writes a checkpoint; it stays from the first one on. Pure.
int64_t checkpoint_memory(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model);

/// Bytes of gradients that a backward pass has in buckets beside those that stay, at most. Pure.
int64_t passing_buckets(const train::StrategyOptions& strategy, int ranks, const ModelMemory& model);

}  // namespace tw::tool
