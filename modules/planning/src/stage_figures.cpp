// SPDX-License-Identifier: Apache-2.0
#include "stage_figures.hpp"

#include <algorithm>

namespace tw::pipeline {

StageLoad stage_load(const BlockCostTable& costs, int begin, int end, int64_t rows, std::optional<double> segment_bytes) {
  const auto r = static_cast<double>(rows);
  return {.costs = costs.at(begin, end),
          .input_bytes = costs.border(begin).of(r),
          .output_bytes = costs.border(end).of(r),
          .is_first = begin == 0,
          .segment_bytes = segment_bytes ? *segment_bytes : costs.segments_peak(begin, end, r),
          .parameter_bytes = costs.at(begin, end).parameter_bytes,
          .tied_bytes = costs.at(begin, end).tied_bytes};
}

StageFigures figures_of(const StageLoad& load, const StageSetting& setting, const Cluster& cluster, const ParameterMemory& parameters) {
  const BlockCosts& costs = load.costs;
  const auto rows = static_cast<double>(setting.rows);
  StageFigures figures;
  figures.forward_s = costs.forward.of(rows);
  figures.backward_s = costs.backward.of(rows) + (setting.recompute == Recompute::none ? 0 : figures.forward_s);
  figures.weights_s = std::min(costs.weights.of(rows), costs.backward.of(rows));
  figures.in_flight = setting.in_flight;

  StageMemory& memory = figures.memory;
  memory.weights = load.parameter_bytes * parameters.weights;
  memory.gradients = load.parameter_bytes * parameters.gradients;
  memory.optimizer = load.parameter_bytes * parameters.optimizer / (parameters.sharded_optimizer ? setting.replicas : 1);
  memory.communication = 2 * ((load.is_first ? 0 : load.input_bytes) + load.output_bytes) + (setting.replicas > 1 ? memory.gradients : 0);
  // Memory of the pass that runs now, and of passes that wait for their weights' half. Data left for a weights' half replaces what the pass saved.
  const double left = costs.waiting.of(rows);
  const double now = setting.waiting > 0 ? std::max(costs.peak.of(rows), left) : costs.peak.of(rows);
  const double waiting = std::max(0, setting.waiting - 1) * left;
  switch (setting.recompute) {
    case Recompute::none: memory.activations = (setting.in_flight - 1) * costs.saved.of(rows) + now + waiting; break;
    case Recompute::selective:
      memory.activations = (setting.in_flight - 1) * costs.kept.of(rows) + waiting;
      memory.recomputation = setting.waiting > 0 ? std::max(load.segment_bytes, left) : load.segment_bytes;
      break;
    case Recompute::full:
      memory.activations = setting.in_flight * load.input_bytes + waiting;
      memory.recomputation = now;
      break;
  }

  figures.all_reduce_s = ring_all_reduce(setting.replicas, memory.gradients, cluster.within_stage);
  // Tied gradients go to one of the devices that share them, and back.
  if (load.tied_bytes > 0) figures.all_reduce_s += 2 * cluster.between_stages.transfer(load.tied_bytes * parameters.gradients);
  return figures;
}

}  // namespace tw::pipeline
