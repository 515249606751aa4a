// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/topology.hpp>

namespace tw {

/// Gives LibTorch this rank's share of the node's cores: `topology.cores` threads inside an operation, unless OMP_NUM_THREADS says otherwise, and one
/// between operations. Left alone, it would give every rank as many threads as the node has cores. Local; once, before any work. @return the threads
int set_threads_per_rank(const Topology& topology);

}  // namespace tw
