// SPDX-License-Identifier: Apache-2.0
#include "alone.hpp"
#include "diloco_options.hpp"

namespace tw::train {
namespace {

/// Ranks make an outer step every so often.
class OuterSteps : public Alone {
 public:
  explicit OuterSteps(const StrategySetup& setup)
      : Alone(setup), outer_(setup.ranks.data, setup.model.all_tensors(), diloco_options(setup.options)) {}

  Seconds exposed_time() const override { return outer_.exposed_time(); }
  int64_t payload_bytes() const override { return outer_.bytes_communicated(); }

 private:
  bool after_step() override { return outer_.step(); }
  void finish() override { outer_.finish(); }
  std::vector<NamedShard> own_shards() const override { return outer_.shards(); }

  DiLoCo outer_;
};

}  // namespace

std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup) { return std::make_unique<OuterSteps>(setup); }

DiLoCoOptions diloco_options(const StrategyOptions& options) {
  const OuterPrecision precision = options.compression == CompressionKind::float16    ? OuterPrecision::float16
                                   : options.compression == CompressionKind::bfloat16 ? OuterPrecision::bfloat16
                                                                                      : OuterPrecision::full;
  return {.period = options.period,
          .outer_learning_rate = options.outer_learning_rate,
          .outer_momentum = options.outer_momentum,
          .nesterov = options.outer_momentum > 0,
          .outer_precision = precision};
}

}  // namespace tw::train
