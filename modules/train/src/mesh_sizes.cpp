// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/train/mesh_sizes.hpp>

namespace tw::train {

std::vector<Problem> contradictions(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh) {
  std::vector<Problem> problems;
  const bool sharded = mesh.shard > 1;
  const bool in_parts = mesh.parts > 1;
  const bool every_step = replicas.meet == Meeting::every_step;
  if (sharded && shard.what != Sharded::parameters && !every_step) {
    problems.push_back({"shard.what", "must be \"parameters\" if replicas do not meet in every step", "\"parameters\""});
  }
  if (every_step && sharded && replicas.compression != CompressionKind::none) {
    problems.push_back({"replicas.compression", "is not supported for sharded gradients", "\"none\""});
  } else if (every_step && in_parts && replicas.keeps_residuals()) {
    problems.push_back(
        {"replicas.compression", "must be \"none\", \"float16\" or \"bfloat16\" for a model that several ranks hold together", "\"none\""});
  }
  const int64_t group = std::max<int64_t>(1, replicas.ranks_per_group);
  if (!every_step && mesh.data % group != 0) {
    int64_t divisor = std::min<int64_t>(group, mesh.data);
    while (mesh.data % divisor != 0) --divisor;
    problems.push_back({"replicas.ranks_per_group", concat("is ", group, ", which does not divide the number of ranks along mesh.data, ", mesh.data),
                        concat(divisor)});
  }
  return problems;
}

}  // namespace tw::train
