// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/data_parallel/diloco.hpp>
#include <tw/gradients/compression.hpp>
#include <tw/train/strategy_options.hpp>

#include <iomanip>
#include <limits>

namespace tw::train {

void StrategyOptions::validate() const {
  const bool half = compression == CompressionKind::float16 || compression == CompressionKind::bfloat16;
  TW_EXPECTS(compression == CompressionKind::none || kind == StrategyKind::data || (kind == StrategyKind::diloco && half),
             "compression is for strategy data, and half precision also for diloco");
  TW_EXPECTS((!release_gradients && !one_copy_per_node) || kind == StrategyKind::sharded,
             "release_gradients and one_copy_per_node are for strategy sharded");
  TopKOptions{.fraction = top_k_fraction}.validate();
  PowerSgdOptions{.rank = power_sgd_rank}.validate();
  DiLoCoOptions{.period = period, .outer_learning_rate = outer_learning_rate, .outer_momentum = outer_momentum, .nesterov = outer_momentum > 0}
      .validate();
}

std::string StrategyOptions::describe() const {
  return concat(std::setprecision(std::numeric_limits<double>::max_digits10), "strategy ", static_cast<int>(kind), ", compression ",
                static_cast<int>(compression), " ", top_k_fraction, " ", power_sgd_rank, ", release ", release_gradients, ", one copy ",
                one_copy_per_node, ", period ", period, ", outer ", outer_learning_rate, " ", outer_momentum);
}

}  // namespace tw::train
