// SPDX-License-Identifier: Apache-2.0
#include "strategies.hpp"

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

OptimizerState state_of(torch::optim::Optimizer& optimizer, const Model& model) {
  if (model.is_in_parts()) return {optimizer, model.trained->optimized_tensors()};
  return {optimizer, model.parameters};
}

}  // namespace tw::train
