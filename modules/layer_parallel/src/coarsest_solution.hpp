// SPDX-License-Identifier: Apache-2.0
// The coarsest level solved on every rank, in place of a relay.
#pragma once

#include "sweeper.hpp"

namespace tw::layer_parallel {

/// Makes all steps of `level` up to this rank's points, from `origin` at point 0, and gives `take` the values at these. Collective.
/// @param f right-hand sides at this rank's points, which all ranks get; null on all: none
void solve_everywhere(const Communicator& comm, const LevelPlan& plan, int level, Propagator& propagator, const State& origin, const Stored* f,
                      const std::function<void(int64_t point, const State& values)>& take, Report& report);

}  // namespace tw::layer_parallel
