// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <unistd.h>

#include <array>
#include <tw/mpi/topology.hpp>

namespace tw {

Topology find_topology(const Communicator& comm) {
  MPI_Comm node = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split_type(comm.state().handle, MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &node), "MPI_Comm_split_type", comm.name());
  Topology topology;
  MPI_Comm_rank(node, &topology.local_rank);
  MPI_Comm_size(node, &topology.local_size);
  MPI_Comm_free(&node);

  topology.nodes = topology.local_rank == 0 ? 1 : 0;
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, &topology.nodes, 1, MPI_INT, MPI_SUM, comm.state().handle), "MPI_Allreduce", comm.name());
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  topology.node = name.data();
  return topology;
}

}  // namespace tw
