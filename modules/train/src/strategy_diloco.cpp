// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "diloco_options.hpp"
#include "infrequent.hpp"

namespace tw::train {
std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup) {
  return std::make_unique<Infrequent<DiLoCo>>(setup, diloco_options(setup.replicas));
}

DiLoCoOptions diloco_options(const ReplicaOptions& options) {
  const OuterPrecision precision = options.compression == CompressionKind::float16    ? OuterPrecision::float16
                                   : options.compression == CompressionKind::bfloat16 ? OuterPrecision::bfloat16
                                                                                      : OuterPrecision::full;
  return {.period = options.period,
          .outer_learning_rate = options.outer_learning_rate,
          .outer_momentum = options.outer_momentum,
          .nesterov = options.outer_momentum > 0,
          .outer_precision = precision};
}

void add_diloco(StrategyMemory& memory, const ReplicaOptions& options, const MeshSizes& mesh, const ModelMemory& model) {
  const int outer_tensors = options.outer_momentum > 0 ? 2 : 1;  // anchor and momentum
  const int64_t n = trained_bytes(model) / mesh.shard;
  const int64_t buckets = bucket_bytes(model).sum / mesh.shard;
  memory.kept[MemoryUse::optimizer] += outer_tensors * n;
  memory.kept[MemoryUse::buffers] += options.compression == CompressionKind::none ? buckets : buckets / 2;
  memory.update = std::max(memory.update, std::min(2 * largest_bytes(model), 2 * n));
  memory.checkpoint += outer_tensors * (n + model.frozen_bytes) / mesh.data;
}

}  // namespace tw::train
