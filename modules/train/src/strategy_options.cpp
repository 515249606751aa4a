// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/gradients/compression.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>
#include <tw/train/strategy_options.hpp>

#include <iomanip>
#include <limits>

#include "diloco_options.hpp"

namespace tw::train {

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

void StrategyOptions::validate() const {
  const bool half = compression == CompressionKind::float16 || compression == CompressionKind::bfloat16;
  TW_EXPECTS(compression == CompressionKind::none || kind == StrategyKind::data || (kind == StrategyKind::diloco && half),
             "compression is for strategy data, and half precision also for diloco");
  TW_EXPECTS((!release_gradients && !one_copy_per_node) || kind == StrategyKind::sharded,
             "release_gradients and one_copy_per_node are for strategy sharded");
  TopKOptions{.fraction = top_k_fraction}.validate();
  PowerSgdOptions{.rank = power_sgd_rank}.validate();
  diloco_options(*this).validate();
  parameter_server::ElasticOptions{.period = period, .beta = beta}.validate();
  parameter_server::StaleSynchronousOptions{.staleness = staleness}.validate();
}

std::string StrategyOptions::describe() const {
  return concat(std::setprecision(std::numeric_limits<double>::max_digits10), "strategy ", static_cast<int>(kind), ", compression ",
                static_cast<int>(compression), " ", top_k_fraction, " ", power_sgd_rank, ", release ", release_gradients, ", one copy ",
                one_copy_per_node, ", period ", period, ", outer ", outer_learning_rate, " ", outer_momentum, ", algorithm ",
                static_cast<int>(algorithm), ", beta ", beta, ", staleness ", staleness);
}

}  // namespace tw::train
