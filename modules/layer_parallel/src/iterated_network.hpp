// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/gradients/trainable_model.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/planning/level_plan.hpp>

namespace tw::layer_parallel {

/// @throws ContractError on every rank when they are negative, differ, or one direction alone is serial. Collective.
void expect_iterations(const Communicator& comm, Iterations iterations);

/// Of a forward and a backward pass over one rank. @param serial_layers beside those of the plan
double modelled_speed_up(const LevelPlan& plan, const MgritOptions& forward, const MgritOptions& backward, int64_t serial_layers);

/// An observer that tells `on_phase`; empty if that is.
PhaseObserver without_levels(OnPhase on_phase);

}  // namespace tw::layer_parallel
