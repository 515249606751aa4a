// SPDX-License-Identifier: Apache-2.0
#include "strategy.hpp"

#include <tw/base/contract.hpp>

#include "strategies.hpp"

namespace tw::train {

Outcome outcome_of(bool non_finite, bool finite, bool stop, double loss_scale) {
  const bool overflow = !non_finite && !finite && loss_scale > 1;
  return {.skipped = non_finite || !finite, .overflow = overflow, .non_finite = non_finite || (!finite && !overflow), .stop = stop};
}

std::unique_ptr<Strategy> make_strategy(const StrategySetup& setup) {
  const MeshSizes mesh = setup.ranks.sizes();
  expect_none(contradictions(setup.shard, setup.replicas, mesh));
  switch (setup.replicas.meet) {
    case Meeting::every_step: {
      const bool shares_updates = mesh.shard > 1 && setup.shard.what != Sharded::parameters;
      return shares_updates ? make_sharded_optimizer(setup) : make_every_step(setup);
    }
    case Meeting::local_sgd: return make_local_sgd(setup);
    case Meeting::diloco: return make_diloco(setup);
    case Meeting::parameter_server: return make_parameter_server(setup);
  }
  TW_EXPECTS(false, "there is no Meeting with the value ", static_cast<int>(setup.replicas.meet));
}

}  // namespace tw::train
