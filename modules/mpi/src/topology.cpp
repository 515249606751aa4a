// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/topology.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <tw/base/process.hpp>
#include <tw/mpi/collectives.hpp>
#include <vector>

#include "cores.hpp"
#include "runtime.hpp"

namespace tw {
namespace {

// Collective over `comm`.
int cores_of_this_rank(const Communicator& comm, const std::vector<int>& neighbours, int local_rank) {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);  // fails on nodes of more than 1024 hardware threads
  mine = mpi::cores_of(mine, mpi::lowest_threads());
  const std::set<int> of_machine(mpi::lowest_threads().begin(), mpi::lowest_threads().end());
  const auto machine = of_machine.empty() ? ::sysconf(_SC_NPROCESSORS_ONLN) : static_cast<int64_t>(of_machine.size());
  std::vector<cpu_set_t> all(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  std::vector<cpu_set_t> of_node;
  for (const int rank : neighbours) of_node.push_back(all[static_cast<size_t>(rank)]);
  return mpi::share_of_cores(of_node, static_cast<size_t>(local_rank), static_cast<int>(machine));
}

}  // namespace

std::vector<int> mpi::find_neighbours(const CommunicatorState& comm) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm.handle, MPI_COMM_TYPE_SHARED, comm.rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type", comm.name);
  int size = 0;
  check(MPI_Comm_size(node, &size), "MPI_Comm_size", comm.name);
  std::vector<int> ranks(static_cast<size_t>(size));
  check(MPI_Allgather(&comm.rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node), "MPI_Allgather", comm.name);
  check(MPI_Comm_free(&node), "MPI_Comm_free", comm.name);
  return ranks;
}

std::vector<int> ranks_of_this_node(const Communicator& comm) {
  mpi::CommunicatorState& state = *comm.state();
  if (state.neighbours.empty()) {
    mpi::meet(comm);
    state.neighbours = mpi::find_neighbours(state);
  }
  return state.neighbours;
}

Topology find_topology(const Communicator& comm) {
  const std::vector<int> neighbours = ranks_of_this_node(comm);
  Topology topology;
  topology.local_rank = static_cast<int>(std::find(neighbours.begin(), neighbours.end(), comm.rank()) - neighbours.begin());
  topology.local_size = static_cast<int>(neighbours.size());
  std::vector<int> firsts(static_cast<size_t>(comm.size()));  // by rank: lowest rank of its node
  mpi::allgather(comm, std::as_bytes(std::span(neighbours.data(), 1)), std::as_writable_bytes(std::span(firsts)));
  const std::set<int> nodes(firsts.begin(), firsts.end());
  topology.nodes = static_cast<int>(nodes.size());
  topology.node_index = static_cast<int>(std::distance(nodes.begin(), nodes.find(neighbours.front())));
  topology.node = host_name();
  topology.cores = cores_of_this_rank(comm, neighbours, topology.local_rank);
  return topology;
}

}  // namespace tw
