// SPDX-License-Identifier: Apache-2.0
// hosts_program RANKS MBIT: checks that hosts.sh made hosts with these numbers of ranks (a list, such as 2,1), connected at MBIT/s (0: any rate).
// Prints "hosts as asked" if all holds.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return {name.data(), static_cast<size_t>(length)};
}

// The rate [Mbit/s] at which `from` sends 8 MiB to `to`, until `to` confirms the receipt. The fastest round counts: a busy machine can only slow a
// round down, and no round may beat the link.
double mbit_per_second(int rank, int from, int to) {
  constexpr int kBytes = 8 << 20;
  std::vector<char> message(kBytes);
  double fastest = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < 4; ++round) {
    const double start = MPI_Wtime();
    if (rank == from) {
      MPI_Send(message.data(), kBytes, MPI_CHAR, to, 0, MPI_COMM_WORLD);
      MPI_Recv(nullptr, 0, MPI_CHAR, to, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == to) {
      MPI_Recv(message.data(), kBytes, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(nullptr, 0, MPI_CHAR, from, 1, MPI_COMM_WORLD);
    }
    fastest = std::max(fastest, 8e-6 * kBytes / (MPI_Wtime() - start));
  }
  MPI_Bcast(&fastest, 1, MPI_DOUBLE, from, MPI_COMM_WORLD);
  return fastest;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<int> first_of_host{0};  // first rank of each host, then the number of ranks
  std::istringstream list(argc > 1 ? argv[1] : "");
  for (std::string ranks; std::getline(list, ranks, ',');) first_of_host.push_back(first_of_host.back() + std::atoi(ranks.c_str()));
  const double mbit = argc > 2 ? std::atof(argv[2]) : 0;
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t host = 0;
  while (host + 2 < first_of_host.size() && rank >= first_of_host[host + 1]) ++host;

  // The ranks that share memory with this one must be those of its host, under its name.
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_size = 0;
  int first_of_node = rank;
  MPI_Comm_size(node, &node_size);
  MPI_Bcast(&first_of_node, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  int good = size == first_of_host.back() && first_of_node == first_of_host[host] && node_size == first_of_host[host + 1] - first_of_host[host] &&
             host_name() == "tw-h" + std::to_string(host + 1);
  double clock = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  const double mine = clock;
  MPI_Bcast(&clock, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  const double ahead = mine - clock - 100'000 * static_cast<double>(host);
  good = good != 0 && ahead > -50'000 && ahead < 50'000;
  std::printf("rank %d of %d is on %s, with %d ranks from rank %d on\n", rank, size, host_name().c_str(), node_size, first_of_node);
  MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);

  for (size_t other = 1; good != 0 && other + 1 < first_of_host.size(); ++other) {
    for (const bool back : {false, true}) {
      const int from = back ? first_of_host[other] : 0;
      const int to = back ? 0 : first_of_host[other];
      const double rate = mbit_per_second(rank, from, to);
      if (rank == 0) std::printf("rank %d to rank %d: %.1f Mbit/s of %.0f\n", from, to, rate, mbit);
      // Headers take 5 % of what tbf counts; its burst saves at most 2 % of 8 MiB.
      if (mbit > 0 && (rate < 0.70 * mbit || rate > 1.05 * mbit)) good = 0;
    }
  }
  if (rank == 0) std::printf(good != 0 ? "hosts as asked\n" : "NOT as asked\n");
  MPI_Finalize();
  return good != 0 ? 0 : 1;
}
