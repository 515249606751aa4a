// SPDX-License-Identifier: Apache-2.0
// What speed-up to expect, from the plan alone. Pure.
#pragma once
#include <tw/planning/cycle.hpp>

namespace tw::layer_parallel {

/// One direction of a pass.
struct PassOptions {
  CycleOptions cycle = {};
  int iterations = 1;
  bool residuals = true;  ///< something depends on them: after each iteration that has one, all ranks meet in an all-reduce
};

/// What things take, in any one unit of time.
struct Costs {
  double step = 1;            ///< a layer's forward step
  double backward = 2;        ///< a step of the adjoint, in forward steps
  double message = 0;         ///< from its sending until the receiver has it; all-reduce and broadcast: that by log2(ranks), rounded up
  int64_t serial_layers = 0;  ///< in addition to the plan's: before and after the grid, made one after the other

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(Costs& costs, OptionVisitor& visitor);

struct Prediction {
  double serial = 0;    ///< all layers forward and backward, one after the other, in the unit of Costs
  double parallel = 0;  ///< the pass over all ranks
  double speed_up = 1;
};

/// Of one forward and backward pass. A simulation of all ranks: each does its steps one by one, waits only for the messages that it needs, and goes
/// on to the next sweep while ranks after it still work. Layers are equal. All ranks meet between the directions, when the output is broadcast.
Prediction predict(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward, const Costs& costs = {});

/// Steps one after the other in all iterations of one direction and in the last relaxation, if all ranks met after every sweep: what closed formulas
/// count, and at least what the simulation finds.
int64_t longest_way(const LevelPlan& plan, const PassOptions& pass);

}  // namespace tw::layer_parallel
