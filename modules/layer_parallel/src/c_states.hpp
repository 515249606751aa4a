// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/solver.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {

/// The states of `solution` at this rank's C-points, and at the left end of its first step. Coarse steps of the adjoint need them. If the left end is
/// the last point of the previous rank, that rank sends it. Collective. @param example any state of the right shape
Stored exchange_c_states(const Communicator& comm, const LevelPlan& plan, const Solution& solution, const State& example);

}  // namespace tw::layer_parallel
