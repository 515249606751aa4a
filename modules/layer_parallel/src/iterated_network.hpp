// SPDX-License-Identifier: Apache-2.0
#pragma once
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

}  // namespace tw::layer_parallel
