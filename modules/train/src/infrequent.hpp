// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "independent_replicas.hpp"

namespace tw::train {

/// Ranks that step independently and meet periodically. `Outer`, a LocalSgd or DiLoCo, decides when they meet and what they exchange.
template <class Outer>
class Infrequent : public IndependentReplicas {
 public:
  template <class OuterOptions>
  Infrequent(const StrategySetup& setup, const OuterOptions& options)
      : IndependentReplicas(setup), outer_(setup.ranks.data, tensors_of(setup.model), options) {}

  Seconds exposed_time() const override { return outer_.exposed_time() + part().sums().exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated() + part().sums().payload_bytes(); }

 private:
  bool after_step() override { return written_if(outer_.step()); }
  void finish() override { written_if(outer_.finish()); }
  bool written_if(bool met) {
    if (met) part().sums().parameters_written();
    return met;
  }
  /// The tensors of this rank's part of the model that change.
  std::vector<NamedTensor> tensors_of(const Model& model) const {
    std::vector<NamedTensor> tensors = part().named();
    tensors.insert(tensors.end(), model.buffers.begin(), model.buffers.end());
    return tensors;
  }
  void account_own(KnownMemory& known) const override {
    account_optimizer(known, outer_.shards());
    known.add(MemoryUse::buffers, outer_.buffer_bytes());
  }
  /// If several ranks hold a replica, a tensor named after a parameter has the place of this rank's part of that parameter.
  std::vector<NamedShard> own_shards() const override {
    if (part().is_whole()) return outer_.shards();
    std::vector<NamedShard> shards;
    for (const NamedShard& shard : outer_.shards()) {
      const auto parameter = std::ranges::find_if(part().named(), [&](const NamedTensor& each) { return shard.name.ends_with('/' + each.name); });
      if (parameter == part().named().end()) {
        shards.push_back(shard);
        continue;
      }
      const OptimizedTensor& place =
          *std::ranges::find_if(part().tensors(), [&](const OptimizedTensor& each) { return each.tensor.is_same(parameter->tensor); });
      for (NamedShard slice : place.slices) {
        slice.name = shard.name.substr(0, shard.name.size() - parameter->name.size()) + slice.name;
        slice.drop_other_names();
        slice.tensor = counterpart(shard.tensor, place.tensor, slice.tensor);
        slice.kind = shard.kind;
        slice.on_reshard = OnReshard::shard;
        shards.push_back(std::move(slice));
      }
    }
    return shards;
  }

  Outer outer_;
};

}  // namespace tw::train
