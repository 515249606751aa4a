// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <tw/mpi/topology.hpp>

namespace tw {
namespace {

int cores_of_a_rank(int local_size) {
  const auto of_node = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int usable = ::sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : of_node;
  return usable < of_node ? usable : std::max(1, of_node / local_size);
}

}  // namespace

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
  topology.cores = cores_of_a_rank(topology.local_size);
  return topology;
}

}  // namespace tw
