// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/topology.hpp>

namespace tw {

/// Assigns this rank's share of the node's cores to LibTorch: `topology.cores` threads inside an operation, unless OMP_NUM_THREADS is set, and one
/// between operations. By default every rank would use one thread per core of the node. Local; call it once, before any work. @return the number of
/// threads
int set_threads_per_rank(const Topology& topology);

}  // namespace tw
