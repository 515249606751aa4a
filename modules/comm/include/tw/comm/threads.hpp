// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/topology.hpp>

namespace tw {

/// Sets the number of threads that LibTorch uses inside an operation to `topology.cores`, this rank's share of the node's cores, unless
/// OMP_NUM_THREADS is set. Sets the number of threads that run operations in parallel to 1. By default every rank would use one thread per core of
/// the node. Call it before LibTorch's first operation. Local. @return the number of threads inside an operation
int set_threads_per_rank(const Topology& topology);

}  // namespace tw
