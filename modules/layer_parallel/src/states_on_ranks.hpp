// SPDX-License-Identifier: Apache-2.0
// States that travel whole, with shapes that only the sender knows.
#pragma once
#include <optional>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/propagator.hpp>

namespace tw::layer_parallel {

/// `state` of `root`, with its shapes and dtypes; elsewhere what it holds is not defined. Collective.
/// @param device where this rank's is to lie; none: on the current device of the root's kind
State broadcast_shapes(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device);
/// `state` of `root`, on every rank. Collective.
State broadcast_state(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device);

}  // namespace tw::layer_parallel
