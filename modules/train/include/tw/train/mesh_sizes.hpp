// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/train/replica_options.hpp>
#include <tw/train/shard_options.hpp>
#include <vector>

namespace tw::train {

/// Numbers of ranks along the axes of a trainer's mesh.
struct MeshSizes {
  int data = 1;   ///< with the same elements and other samples
  int shard = 1;  ///< with other elements and other samples
  int parts = 1;  ///< that hold the model together, with the same samples

  /// Ranks with other samples.
  int samples() const { return data * shard; }
};

/// What keeps these numbers of ranks from training with these options; empty: nothing. Keys as in Options. Pure.
std::vector<Problem> contradictions(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh);

}  // namespace tw::train
