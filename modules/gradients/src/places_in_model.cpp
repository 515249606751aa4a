// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/places_in_model.hpp>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw {

PlacesInModel::PlacesInModel(const TrainableModel& model) {
  const std::vector<NamedShard> shards = model.shards();
  for (const auto& [name, tensor] : model.tensors().parameters) {
    const auto place = std::ranges::find_if(shards, [&](const NamedShard& shard) {
      return shard.kind == ShardKind::parameter && shard.tensor.is_alias_of(tensor) && shard.tensor.storage_offset() == tensor.storage_offset() &&
             shard.tensor.sizes() == tensor.sizes();
    });
    TW_ASSERT(place != shards.end());
    places_.emplace(name, *place).first->second.tensor = at::Tensor();
  }
}

NamedShard PlacesInModel::in_whole(NamedShard part) const {
  const NamedShard& place = at(part.name);
  part.name = place.name;
  part.aliases = place.aliases;
  part.layers = place.layers;
  part.global_shape = place.global_shape;
  for (size_t i = 0; i < part.offsets.size(); ++i) part.offsets[i] += place.offsets[i];
  return part;
}

}  // namespace tw
