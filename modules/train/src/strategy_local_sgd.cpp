// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/local_sgd.hpp>

#include "infrequent.hpp"

namespace tw::train {

std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup) {
  return std::make_unique<Infrequent<LocalSgd>>(setup, LocalSgdOptions{.period = setup.options.period});
}

StrategyMemory local_sgd_memory(const ModelMemory& model) {
  StrategyMemory memory = replica_memory(model);
  memory.kept[MemoryUse::buffers] += bucket_bytes(model).sum + model.buffer_bytes;  // the model's buffers are averaged, too
  return memory;
}

}  // namespace tw::train
