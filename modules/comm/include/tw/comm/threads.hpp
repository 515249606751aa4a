// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/topology.hpp>

namespace tw {

/// Unless OMP_NUM_THREADS is set, sets the number of threads that LibTorch uses inside an operation to `topology.cores`, this rank's share of the
/// node's cores. Without this, every rank would use one thread per core of the node. Also sets the number of threads that run operations in parallel
/// to 1. Call it before LibTorch's first operation. Local. @return the number of threads inside an operation
int set_threads_per_rank(const Topology& topology);

}  // namespace tw
