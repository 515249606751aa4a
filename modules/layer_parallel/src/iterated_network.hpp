// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/planning/level_plan.hpp>

namespace tw::layer_parallel {

/// @throws ContractError on every rank if iterations are negative, differ between ranks, or only one direction is serial. Collective.
void expect_iterations(const Communicator& comm, Iterations iterations);

/// Predicted speed-up of a forward and a backward pass over one rank. @param serial_layers layers outside the plan
double modelled_speed_up(const LevelPlan& plan, const MgritOptions& forward, const MgritOptions& backward, int64_t serial_layers);

/// An observer that calls `on_phase`; empty if `on_phase` is.
PhaseObserver without_levels(OnPhase on_phase);

/// The levels of LayerParallelOptions or RecurrentOptions.
template <class Options>
LevelOptions level_options(const Options& options) {
  return {options.levels, options.coarsening, options.min_coarse};
}

/// Visits them as the fields of LevelOptions.
template <class Options>
void visit_levels(Options& options, OptionVisitor& visitor) {
  LevelOptions levels = level_options(options);
  visit(levels, visitor);
  options.levels = levels.levels;
  options.coarsening = levels.coarsening;
  options.min_coarse = levels.min_coarse;
}

}  // namespace tw::layer_parallel
