// SPDX-License-Identifier: Apache-2.0
// Whole states sent between ranks, with shapes that only the sender knows.
#pragma once
#include <optional>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/propagator.hpp>

namespace tw::layer_parallel {

/// A state with the shapes and dtypes of `state` on `root`; its values are undefined on all other ranks. Collective.
/// @param device device of this rank's tensors; none: the current device of the kind that `root` uses
State broadcast_shapes(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device);
/// `state` of `root`, on every rank. Collective.
State broadcast_state(const Communicator& comm, const State& state, Rank root, std::optional<c10::Device> device);

}  // namespace tw::layer_parallel
