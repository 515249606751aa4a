// SPDX-License-Identifier: Apache-2.0
#include "model_shards.hpp"

namespace tw::train {

std::vector<NamedShard> buffer_shards(const Model& model) {
  std::vector<NamedShard> shards = model.trained->shards();
  std::erase_if(shards, [](const NamedShard& shard) { return shard.kind != ShardKind::buffer; });
  return shards;
}

std::vector<NamedShard> with_aliases(std::vector<NamedShard> shards, const Model& model) {
  for (NamedShard& shard : shards) {
    for (const auto& [alias, name] : model.aliases) {
      if (name == shard.name) shard.aliases.push_back(alias);
    }
  }
  return shards;
}

}  // namespace tw::train
