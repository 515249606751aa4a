// SPDX-License-Identifier: Apache-2.0
// Predicts the speed-up of a LevelPlan over serial execution. Pure.
#pragma once
#include <tw/planning/cycle.hpp>

namespace tw::layer_parallel {

/// Options of one direction, forward or backward.
struct PassOptions {
  CycleOptions cycle = {};
  int iterations = 1;
  bool residuals = true;  ///< whether residuals are needed; each iteration that has one then ends with an all-reduce
};

/// Durations. `step` and `message` have the same arbitrary unit of time.
struct Costs {
  double step = 1;            ///< forward step of a layer
  double backward = 2;        ///< step of the adjoint, as a multiple of a forward step
  double message = 0;         ///< time from send to receipt; an all-reduce or broadcast takes ceil(log2(ranks)) times as long
  int64_t serial_layers = 0;  ///< number of layers outside the plan, before and after the grid, executed serially

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(Costs& costs, OptionVisitor& visitor);

struct Prediction {
  double serial = 0;    ///< time of all layers forward and backward, executed serially, in the unit of Costs
  double parallel = 0;  ///< time of the forward and backward pass on all ranks, including Costs::serial_layers
  double speed_up = 1;
};

/// Predicts one forward and backward pass by simulating all ranks. Each rank executes its steps in order, waits only for the messages that it needs,
/// and starts its next sweep while higher ranks still work. All layers cost the same. All ranks synchronise between the directions, when the output
/// is broadcast.
Prediction predict(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward, const Costs& costs = {});

/// The number of serial steps in all iterations of one direction and in the last relaxation, if all ranks synchronised after every sweep. Closed
/// formulas for the speed-up count in the same manner. It is an upper bound of the number in predict()'s simulation.
int64_t serial_step_bound(const LevelPlan& plan, const PassOptions& pass);

}  // namespace tw::layer_parallel
