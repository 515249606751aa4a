// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/communicator.hpp>
#include <tw/train/report.hpp>

namespace tw::train {

/// The rank that the others wait for: the one that waits least. Its own wait is due to the network; the additional wait of the others is due to this
/// rank. None if that is small.
/// @param waits by rank: time waiting for communication, as a share of the total step time
std::optional<SlowRank> slowest_of(const std::vector<double>& waits);

/// The same over the ranks of `comm`, including the rank's host. Collective.
std::optional<SlowRank> find_slow_rank(const Communicator& comm, double my_waits);

}  // namespace tw::train
