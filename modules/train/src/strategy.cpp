// SPDX-License-Identifier: Apache-2.0
#include "strategy.hpp"

#include <array>
#include <tw/base/contract.hpp>

#include "strategies.hpp"

namespace tw::train {
namespace {

struct Entry {
  StrategyKind kind;
  bool takes_parts;  // supports models that several ranks hold together
  bool replicates;   // parameters stay equal on all ranks after every update
  std::unique_ptr<Strategy> (*make)(const StrategySetup&);
};

constexpr std::array<Entry, 6> strategies{{{StrategyKind::data, true, true, make_data},
                                           {StrategyKind::sharded, false, true, make_sharded},
                                           {StrategyKind::fully_sharded, true, true, make_fully_sharded},
                                           {StrategyKind::local_sgd, true, false, make_local_sgd},
                                           {StrategyKind::diloco, true, false, make_diloco},
                                           {StrategyKind::parameter_server, false, false, make_parameter_server}}};

std::string names_of(const std::vector<std::string>& axes) {
  std::string names;
  for (const std::string& axis : axes) names += (names.empty() ? "'" : "', '") + axis;
  return names + "'";
}

}  // namespace

Outcome outcome_of(bool non_finite, bool finite, bool stop, double loss_scale) {
  const bool overflow = !non_finite && !finite && loss_scale > 1;
  return {.left_out = non_finite || !finite, .overflow = overflow, .non_finite = non_finite || (!finite && !overflow), .stop = stop};
}

std::unique_ptr<Strategy> make_strategy(const StrategySetup& setup) {
  for (const Entry& entry : strategies) {
    if (entry.kind != setup.options.kind) continue;
    const bool keeps_residuals = entry.kind == StrategyKind::data &&
                                 (setup.options.compression == CompressionKind::top_k || setup.options.compression == CompressionKind::power_sgd);
    const bool fits = !setup.model.is_in_parts() || (entry.takes_parts && !keeps_residuals);
    TW_EXPECTS(fits, "a model split along the axis ", names_of(setup.model.trained->axes()),
               " can be trained with the strategies data (uncompressed or in half precision), fully_sharded, local_sgd and diloco");
    if (entry.replicates && setup.ranks.data.size() > 1) setup.model.expect_replicable();
    return entry.make(setup);
  }
  TW_EXPECTS(false, "there is no strategy ", static_cast<int>(setup.options.kind));
}

}  // namespace tw::train
