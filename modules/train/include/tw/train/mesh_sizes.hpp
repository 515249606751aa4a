// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/train/replica_options.hpp>
#include <tw/train/shard_options.hpp>
#include <vector>

namespace tw::train {

/// Numbers of ranks along the axes of a trainer's mesh.
struct MeshSizes {
  int data = 1;   ///< ranks with the same elements of the model and different samples
  int shard = 1;  ///< ranks with different elements and different samples
  int parts = 1;  ///< ranks that hold one model together, with the same samples

  /// Number of ranks with different samples.
  int samples() const { return data * shard; }
};

/// The reasons why ranks in such a mesh cannot train with these options; empty: they can. Problems have keys as in Options, such as "shard.what".
/// Pure.
std::vector<Problem> contradictions(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh);

}  // namespace tw::train
