// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/gradients/trained_model.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/planning/level_plan.hpp>

namespace tw::layer_parallel {

/// @throws ContractError on every rank when they are negative, differ, or one direction alone is serial. Collective.
void expect_iterations(const Communicator& comm, Iterations iterations);

/// Of a forward and a backward pass over one rank. @param serial_layers beside those of the plan
double modelled_speed_up(const LevelPlan& plan, const MgritOptions& forward, const MgritOptions& backward, int64_t serial_layers);

/// An observer that tells `on_phase`; empty if that is.
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
