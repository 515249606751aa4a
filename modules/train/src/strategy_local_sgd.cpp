// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/local_sgd.hpp>

#include "infrequent.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup) {
  return std::make_unique<Infrequent<LocalSgd>>(setup, LocalSgdOptions{.period = setup.replicas.period, .average_buffers = true});
}

void add_local_sgd(StrategyMemory& memory, const MeshSizes& mesh, const ModelMemory& model) {
  memory.kept[MemoryUse::buffers] += bucket_bytes(model).sum / mesh.shard + model.buffer_bytes;  // the model's buffers are averaged, too
}

}  // namespace tw::train
