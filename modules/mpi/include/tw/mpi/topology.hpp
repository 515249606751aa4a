// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Where the ranks of a communicator live.
struct Topology {
  int local_rank = 0;  ///< this rank among those of its node
  int local_size = 1;  ///< ranks of this node
  int nodes = 1;       ///< nodes in all
  std::string node;    ///< this node's host name
  int cores = 1;       ///< cores for this rank: those it is bound to, else its share of the node's; at least 1
};

/// Finds who shares memory with whom (MPI_Comm_split_type). Collective.
Topology find_topology(const Communicator& comm);

}  // namespace tw
