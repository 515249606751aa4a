// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tw/gradients/bucket_plan.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Which ranks have the reduced gradients after a step.
enum class Sharding {
  none,     ///< every rank has all reduced gradients
  slices,   ///< every bucket is cut into equal slices, one per rank; for element-wise update rules
  tensors,  ///< every tensor belongs to one rank; for other update rules
};
const std::vector<std::pair<std::string, Sharding>>& sharding_names();

/// Consecutive elements of one gradient.
struct ShardPiece {
  int64_t gradient = 0;  ///< id of the gradient
  int64_t begin = 0;     ///< index of the first element in the flattened gradient
  int64_t count = 0;     ///< number of elements, at least 1
  int64_t bucket = 0;
  int64_t offset = 0;  ///< index of the first element in the bucket

  bool operator==(const ShardPiece&) const = default;
};

/// The pieces of a sharded plan that `rank` holds, in bucket order. Pure.
/// @param plan made with Arrangement::slices = ranks, or with owners. @param gradients the gradients that the plan was made for.
std::vector<ShardPiece> shard_pieces(const BucketPlan& plan, std::span<const TensorSpec> gradients, int rank, int ranks);

}  // namespace tw
