// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/local_sgd.hpp>

#include "alone.hpp"

namespace tw::train {
namespace {

/// Ranks average their parameters every so often.
class LocalUpdates : public Alone {
 public:
  explicit LocalUpdates(const StrategySetup& setup)
      : Alone(setup), outer_(setup.ranks.data, setup.model.all_tensors(), LocalSgdOptions{.period = setup.options.period}) {}

  Seconds exposed_time() const override { return outer_.exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated(); }

 private:
  bool after_step() override { return outer_.step(); }
  void finish() override { outer_.finish(); }
  std::vector<NamedShard> own_shards() const override { return outer_.shards(); }

  LocalSgd outer_;
};

}  // namespace

std::unique_ptr<Strategy> make_local_sgd(const StrategySetup& setup) { return std::make_unique<LocalUpdates>(setup); }

}  // namespace tw::train
