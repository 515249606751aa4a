// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/communicator.hpp>
#include <tw/train/report.hpp>

namespace tw::train {

/// The rank that the others wait for: the one that waits least. What it waits itself, the wire takes; what the others wait beyond, it takes. Nothing
/// where that is little.
/// @param waits by rank: time in which it waited for communication, over the time of all steps
std::optional<SlowRank> slowest_of(const std::vector<double>& waits);

/// The same of the ranks of `comm`, with its host. Collective.
std::optional<SlowRank> find_slow_rank(const Communicator& comm, double my_waits);

}  // namespace tw::train
