// SPDX-License-Identifier: Apache-2.0
#include "strategies.hpp"

#include <ATen/core/grad_mode.h>

#include <iterator>

namespace tw::train {

void append(std::vector<NamedShard>& shards, std::vector<NamedShard> more) {
  shards.insert(shards.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<NamedShard> parameter_shards(const Model& model) {
  std::vector<NamedShard> shards = model.trained->shards();
  std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::parameter; });
  return shards;
}

void divide_gradients(const std::vector<NamedTensor>& parameters, double by) {
  if (by == 1) return;
  const at::NoGradGuard no_grad;
  for (const NamedTensor& each : parameters) {
    if (each.tensor.grad().defined()) each.tensor.mutable_grad().div_(by);
  }
}

void account_parameters(KnownMemory& known, const std::vector<NamedTensor>& parameters, int sharers) {
  for (const NamedTensor& each : parameters) {
    known.add(MemoryUse::parameters, each.tensor, sharers);
    known.add(MemoryUse::gradients, each.tensor.grad());
  }
}

void account_buckets(KnownMemory& known, const Reducer& reducer) {
  known.add(MemoryUse::buffers, reducer.room());
  for (size_t bucket = 0; bucket < reducer.plan().buckets.size(); ++bucket) {
    known.add(MemoryUse::gradients, reducer.shard(static_cast<int64_t>(bucket)));
  }
}

void account_optimizer(KnownMemory& known, const std::vector<NamedShard>& shards) {
  for (const NamedShard& shard : shards) {
    if (shard.kind == ShardKind::optimizer) known.add(MemoryUse::optimizer, shard.tensor);
  }
}

OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model) {
  if (model.is_in_parts()) return {optimizer, model.trained->optimized_tensors()};
  return {optimizer, model.parameters};
}

}  // namespace tw::train
