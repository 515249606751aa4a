// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/shard_plan.hpp>

#include <algorithm>

namespace tw {

const std::vector<std::pair<std::string, Sharding>>& sharding_names() {
  static const std::vector<std::pair<std::string, Sharding>> names{
      {"none", Sharding::none}, {"slices", Sharding::slices}, {"tensors", Sharding::tensors}};
  return names;
}

std::vector<ShardPiece> shard_pieces(const BucketPlan& plan, std::span<const TensorSpec> gradients, int rank, int ranks) {
  std::vector<ShardPiece> pieces;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    const bool sliced = bucket.owner < 0;
    if (!sliced && bucket.owner != rank) continue;
    const int64_t slice = sliced ? bucket.numel / ranks : bucket.numel;
    const int64_t slice_begin = sliced ? rank * slice : 0;
    for (const int64_t id : bucket.gradients) {
      const int64_t offset = plan.placements[static_cast<size_t>(id)].offset;
      const int64_t begin = std::max(offset, slice_begin);
      const int64_t end = std::min(offset + gradients[static_cast<size_t>(id)].numel(), slice_begin + slice);
      if (begin < end) pieces.push_back({id, begin - offset, end - begin, static_cast<int64_t>(i), begin});
    }
  }
  return pieces;
}

}  // namespace tw
