// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// The placement of a communicator's ranks on nodes.
struct Topology {
  int local_rank = 0;  ///< index of this rank among the ranks of its node
  int local_size = 1;  ///< number of ranks on this node
  int nodes = 1;       ///< number of nodes
  int node_index = 0;  ///< index of this node, 0 to nodes - 1, ordered by lowest rank
  std::string node;    ///< this node's host name
  /// Cores that this rank may use, divided by the number of this node's ranks that may use the same ones. Hardware threads of one core count once. At
  /// least 1.
  int cores = 1;
};

/// The ranks of `comm` that share memory with this rank, including this rank, ascending. Local, with one exception: the first call is collective for
/// the world() of an adopted MPI, and for each communicator derived from it before that call.
std::vector<int> ranks_of_this_node(const Communicator& comm);

/// Finds which ranks share memory (MPI_Comm_split_type). Collective.
Topology find_topology(const Communicator& comm);

}  // namespace tw
