// SPDX-License-Identifier: Apache-2.0
#include <tw/train/mesh_sizes.hpp>

namespace tw::train {

std::vector<Problem> contradictions(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh) {
  std::vector<Problem> problems;
  const bool sharded = mesh.shard > 1;
  const bool in_parts = mesh.parts > 1;
  const bool every_step = replicas.meet == Meeting::every_step;
  if (replicas.meet == Meeting::parameter_server && (sharded || in_parts)) {
    problems.push_back({"replicas.meet", "is \"parameter_server\", which needs the whole model on every rank, but the mesh divides it",
                        "\"every_step\", \"local_sgd\" or \"diloco\""});
  }
  if (sharded && shard.what != Sharded::parameters && (mesh.data > 1 || in_parts || !every_step)) {
    problems.push_back(
        {"shard.what", "must be \"parameters\" if ranks lie along other axes than shard, too, or do not meet in every step", "\"parameters\""});
  }
  if (every_step && sharded && replicas.compression != CompressionKind::none) {
    problems.push_back({"replicas.compression", "is not for sharded gradients", "\"none\""});
  } else if (every_step && in_parts && replicas.keeps_residuals()) {
    problems.push_back(
        {"replicas.compression", "must be \"none\", \"float16\" or \"bfloat16\" for a model that several ranks hold together", "\"none\""});
  }
  return problems;
}

}  // namespace tw::train
