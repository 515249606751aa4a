// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <tw/gradients/places_in_model.hpp>

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
    const PlacesInModel places(*model_.trained);
    for (NamedShard& shard : shards) {
      const auto parameter = std::ranges::find_if(model_.parameters, [&](const NamedTensor& each) { return shard.name.ends_with('/' + each.name); });
      if (parameter == model_.parameters.end()) continue;
      const NamedShard& place = places.at(parameter->name);
      shard.name.replace(shard.name.size() - parameter->name.size(), parameter->name.size(), place.name);
      shard.global_shape = place.global_shape;
      shard.offsets = place.offsets;
      shard.on_reshard = OnReshard::shard;
    }
    return shards;
  }

  const Model& model_;
  Outer outer_;
};

}  // namespace tw::train
