// SPDX-License-Identifier: Apache-2.0
// What speed-up to expect, from the plan alone. Pure.
#pragma once
#include <string>
#include <tw/layer_parallel/cycle.hpp>

namespace tw::layer_parallel {

/// One direction of a pass.
struct PassOptions {
  CycleOptions cycle = {};
  int iterations = 1;
};

struct Prediction {
  double serial = 0;    ///< layers forward, and backward at twice the cost, in units of a layer's forward step
  double parallel = 0;  ///< the longest way through the plan
  double speed_up = 1;
};

/// Of one forward and backward pass, for layers of equal cost and free messages. Relaxations cost what the busiest rank does; the coarsest level, and
/// intervals that several ranks share, what all do one after the other.
Prediction predict(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward);

/// Steps one after the other in all iterations of one direction and in the last relaxation.
int64_t longest_way(const LevelPlan& plan, const PassOptions& pass);

}  // namespace tw::layer_parallel
