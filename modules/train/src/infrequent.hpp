// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>

#include "independent_replicas.hpp"

namespace tw::train {

/// Ranks that step independently and meet periodically. `Outer`, a LocalSgd or DiLoCo, decides when they meet and what they exchange.
template <class Outer>
class Infrequent : public IndependentReplicas {
 public:
  template <class OuterOptions>
  Infrequent(const StrategySetup& setup, const OuterOptions& options)
      : IndependentReplicas(setup), model_(setup.model), outer_(setup.ranks.data, setup.model.all_tensors(), options) {}

  Seconds exposed_time() const override { return outer_.exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated(); }

 private:
  bool after_step() override { return outer_.step(); }
  void finish() override { outer_.finish(); }
  void account_own(KnownMemory& known) const override {
    account_optimizer(known, outer_.shards());
    known.add(MemoryUse::buffers, outer_.buffer_bytes());
  }
  /// Where ranks hold a replica together: tensors named after a parameter lie where that parameter lies.
  std::vector<NamedShard> own_shards() const override {
    std::vector<NamedShard> shards = outer_.shards();
    if (!model_.is_in_parts()) return shards;
    const std::vector<NamedShard> places = model_.trained->shards();
    for (NamedShard& shard : shards) {
      for (const auto& [name, tensor] : model_.parameters) {
        const auto place = std::ranges::find_if(places, [&](const NamedShard& each) { return each.tensor.is_alias_of(tensor); });
        if (!shard.name.ends_with('/' + name) || place == places.end()) continue;
        shard.name.replace(shard.name.size() - name.size(), name.size(), place->name);
        shard.global_shape = place->global_shape;
        shard.offsets = place->offsets;
        shard.on_reshard = OnReshard::shard;
        break;
      }
    }
    return shards;
  }

  const Model& model_;
  Outer outer_;
};

}  // namespace tw::train
