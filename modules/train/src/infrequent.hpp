// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "independent_replicas.hpp"

namespace tw::train {

/// Ranks that step independently and meet periodically. `Outer`, a LocalSgd or DiLoCo, decides when they meet and what they exchange.
template <class Outer>
class Infrequent : public IndependentReplicas {
 public:
  template <class OuterOptions>
  Infrequent(const StrategySetup& setup, const OuterOptions& options)
      : IndependentReplicas(setup), outer_(setup.ranks.data, setup.model.all_tensors(), options) {}

  Seconds exposed_time() const override { return outer_.exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated(); }

 private:
  bool after_step() override { return outer_.step(); }
  void finish() override { outer_.finish(); }
  void account_own(KnownMemory& known) const override {
    account_optimizer(known, outer_.shards());
    known.add(MemoryUse::buffers, outer_.buffer_bytes());
  }
  std::vector<NamedShard> own_shards() const override { return outer_.shards(); }

  Outer outer_;
};

}  // namespace tw::train
