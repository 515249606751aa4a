// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Where the ranks of a communicator live.
struct Topology {
  int local_rank = 0;  ///< this rank among those of its node
  int local_size = 1;  ///< ranks of this node
  int nodes = 1;       ///< nodes in all
  int node_index = 0;  ///< of this node, 0 to nodes - 1, by lowest rank
  std::string node;    ///< this node's host name
  int cores = 1;       ///< cores for this rank: those it may use, shared with the ranks of its node that may use the same; at least 1
};

/// The ranks of `comm` that share memory with this one, itself included, ascending. Local but for the world() of an adopted MPI and what is made from
/// that, where it is collective the first time.
std::vector<int> ranks_of_this_node(const Communicator& comm);

/// Finds which ranks share memory (MPI_Comm_split_type). Collective.
Topology find_topology(const Communicator& comm);

}  // namespace tw
