// SPDX-License-Identifier: Apache-2.0
#include "diloco_options.hpp"
#include "infrequent.hpp"

namespace tw::train {
std::unique_ptr<Strategy> make_diloco(const StrategySetup& setup) {
  return std::make_unique<Infrequent<DiLoCo>>(setup, diloco_options(setup.options));
}

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
