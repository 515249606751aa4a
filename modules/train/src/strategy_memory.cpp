// SPDX-License-Identifier: Apache-2.0
#include <tw/train/strategy_memory.hpp>

#include <algorithm>

#include "strategies.hpp"

namespace tw::train {

namespace {

int64_t bytes_of(const TensorSpec& spec) { return spec.numel() * static_cast<int64_t>(c10::elementSize(spec.dtype)); }
int64_t bytes_of(const Bucket& bucket) { return bucket.numel * static_cast<int64_t>(c10::elementSize(bucket.dtype)); }

}  // namespace

BucketBytes bucket_bytes(const ModelMemory& model, const BucketOptions& options, int slices) {
  BucketBytes bytes;
  if (model.trained.empty()) return bytes;
  for (const Bucket& bucket : plan_buckets(model.trained, options, {.slices = slices}).buckets) bytes.each.push_back(bytes_of(bucket));
  for (const int64_t each : bytes.each) {
    bytes.sum += each;
    bytes.largest = std::max(bytes.largest, each);
  }
  return bytes;
}

int64_t BucketBytes::in_flight() const { return std::clamp<int64_t>(static_cast<int64_t>(each.size()) - 1, 0, 2) * largest; }

int64_t trained_bytes(const ModelMemory& model) {
  int64_t bytes = 0;
  for (const TensorSpec& spec : model.trained) bytes += bytes_of(spec);
  return bytes;
}

int64_t largest_bytes(const ModelMemory& model) {
  int64_t bytes = 0;
  for (const TensorSpec& spec : model.trained) bytes = std::max(bytes, bytes_of(spec));
  return bytes;
}

StrategyMemory replica_memory(const ModelMemory& model) {
  const int64_t n = trained_bytes(model);
  StrategyMemory memory;
  memory.kept[MemoryUse::parameters] = n + model.frozen_bytes;
  memory.kept[MemoryUse::gradients] = n;
  memory.kept[MemoryUse::optimizer] = model.state_tensors * n;
  memory.kept[MemoryUse::buffers] = model.buffer_bytes;
  memory.update = model.temporary_tensors * largest_bytes(model);
  memory.checkpoint = n + model.frozen_bytes + model.state_tensors * n;
  return memory;
}

StrategyMemory summing_memory(const ModelMemory& model) {
  StrategyMemory memory = replica_memory(model);
  memory.kept[MemoryUse::gradients] = bucket_bytes(model).sum;
  memory.gradients_are_kept = true;
  return memory;
}

StrategyMemory shard_memory(int ranks, const ModelMemory& model) {
  StrategyMemory memory = replica_memory(model);
  memory.kept[MemoryUse::optimizer] /= ranks;
  memory.gradients_are_kept = true;
  memory.update = model.temporary_tensors * std::min(largest_bytes(model), trained_bytes(model) / ranks);
  memory.checkpoint /= ranks;
  return memory;
}

StrategyMemory strategy_memory(const ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh, const ModelMemory& model) {
  const bool sharded = mesh.shard > 1;
  const auto when_all_meet = [&] {
    if (!sharded && replicas.meet == Meeting::every_step) return whole_memory(replicas, mesh.data, model);
    if (!sharded) return replicas.ranks_per_group > 1 ? summing_memory(model) : replica_memory(model);
    return shard.what == Sharded::parameters ? sharded_parameters_memory(shard, mesh.shard, model)
                                             : sharded_optimizer_memory(shard, mesh.samples(), model);
  };
  StrategyMemory memory = when_all_meet();
  switch (replicas.meet) {
    case Meeting::every_step:
      if (sharded && shard.what == Sharded::parameters) memory.checkpoint /= mesh.data;  // divided among the ranks that have the same elements
      break;
    case Meeting::local_sgd: add_local_sgd(memory, mesh, model); break;
    case Meeting::diloco: add_diloco(memory, replicas, mesh, model); break;
    case Meeting::parameter_server: add_parameter_server(memory, replicas, mesh, model); break;
  }
  constexpr int64_t min_checkpoint = int64_t{2} << 20;
  memory.checkpoint = std::max(min_checkpoint, memory.checkpoint);
  memory.best_model = std::max(min_checkpoint, (trained_bytes(model) + model.frozen_bytes) / mesh.samples());
  memory.exported = largest_bytes(model);
  return memory;
}

}  // namespace tw::train
