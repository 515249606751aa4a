// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/topology.hpp>

namespace tw {

/// Sets LibTorch's numbers of threads, so that ranks of one node do not compete for its cores:
/// - intra-op threads, which share the work of an operation: `topology.cores`, unless OMP_NUM_THREADS is set
/// - inter-op threads, which run operations in parallel: always 1
///
/// Without this call, each rank may use as many intra-op threads as the node has cores. Call it before LibTorch's first operation. Local. @return the
/// number of intra-op threads
/// @throws LibTorch's error, at the first call, if the program has already started inter-op threads or set their number
int set_threads_per_rank(const Topology& topology);

}  // namespace tw
