// SPDX-License-Identifier: Apache-2.0
// Trials that all fail, each in a communicator that is revoked together with those that a strategy made from it. After the first tenth of the trials,
// no rank may hold more memory or more communicators. MPICH has 2,048 communicators.
// Run: mpirun -n RANKS accept_failing_trials [TRIALS]; workers have two ranks
#include <ATen/ops/ones.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/interop.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace tw::search;

/// Resources that a rank holds, and the allowed increase.
struct Holdings {
  int64_t resident_kib = 0;
  int64_t communicators = 0;  // communicators that wait to be freed
  int64_t place = 0;          // lowest free index of a communicator in MPI
};
constexpr Holdings allowed{.resident_kib = 2048, .communicators = 64, .place = 64};

Holdings holdings(const tw::Communicator& trial) {
  ::malloc_trim(0);
  Holdings now;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.resident_kib;
  }
  now.communicators = tw::Environment::adopt().communicators_to_free();
  constexpr int of_its_kind = (1 << 26) - 1;  // MPICH's handles begin with bits for their kind
  now.place = MPI_Comm_c2f(tw::native_handle(trial)) & of_its_kind;
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator& world = mpi.world();
  const int64_t trials = argc > 1 ? std::atoll(argv[1]) : 2000;
  const int64_t workers = world.size() / 2;
  const int64_t of_a_worker = trials / workers;  // approximate; faster workers run more
  int64_t made = 0;
  Holdings early;
  Holdings last;
  const auto fails = [&](const Configuration&, Trial& trial) -> Outcome {
    const tw::Communicator part = trial.comm().dup();
    tw::barrier(part);
    ++made;
    last = holdings(part);
    if (made == std::max<int64_t>(of_a_worker / 10, 1)) early = last;
    // All ranks throw, or one throws while the others wait for it.
    const bool gives_up = trial.number() % 3 == 0 || trial.comm().rank() == trial.comm().size() - 1;
    if (gives_up) throw std::runtime_error("given up");
    while (true) tw::allreduce(part, at::ones({1000}), tw::ReduceOp::sum);
  };
  Search search(world, {real("x", 0, 1)}, fails, {.ranks_per_worker = 2, .evaluations = trials});
  const SearchResult result = search.run();
  const std::array<int64_t, 3> grown{last.resident_kib - early.resident_kib, last.communicators - early.communicators, last.place - early.place};
  std::printf(
      "rank %d, %lld trials: at the first tenth %lld KiB, %lld communicators to be freed, the next one in place %lld; at the end %lld KiB, %lld, "
      "%lld\n",
      static_cast<int>(world.rank()), static_cast<long long>(made), static_cast<long long>(early.resident_kib),
      static_cast<long long>(early.communicators), static_cast<long long>(early.place), static_cast<long long>(last.resident_kib),
      static_cast<long long>(last.communicators), static_cast<long long>(last.place));
  int64_t wrong =
      result.failed == trials && grown[0] <= allowed.resident_kib && grown[1] <= allowed.communicators && grown[2] <= allowed.place ? 0 : 1;
  tw::mpi::allreduce(world, {&wrong, 1, tw::ElementType::int64}, tw::ReduceOp::max);
  if (world.rank() == 0) std::printf("%s\n", wrong == 0 ? "flat" : "NOT AS EXPECTED");
  return static_cast<int>(wrong);
}
