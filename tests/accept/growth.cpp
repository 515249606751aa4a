// SPDX-License-Identifier: Apache-2.0
// How long a search takes whose last trials are long: each on a rank of its own, against trials that grow.
// Run: mpirun -n RANKS accept_growth [RUNS]
#include <cstdio>
#include <cstdlib>
#include <median.hpp>
#include <thread>
#include <tw/evolution/breeding.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/search.hpp>
#include <utility>
#include <vector>

namespace {

using namespace tw::search;
using tw::testing::median_of;

constexpr int64_t evaluations = 64;
constexpr HalvingOptions rungs{.grace = 1, .eta = 4, .max_steps = 64};  // 64, 16, 4 and 1 trials: 208 steps in all, 64 of the longest trial
constexpr std::chrono::duration<double> step_on_one_rank{0.02};

/// Work that ranks share out perfectly, and that takes no processor, so that any machine has as many as there are ranks. It reports at rungs alone.
Outcome wait_and_report(const Configuration& c, Trial& trial) {
  const auto loss = [&](int64_t step) { return c.real("x") + 1 / static_cast<double>(step); };
  int64_t done = trial.attach(std::vector<tw::NamedTensor>());
  for (int64_t step = done == 0 ? rungs.grace : done * rungs.eta; step <= rungs.max_steps; step *= rungs.eta) {
    std::this_thread::sleep_for(step_on_one_rank * (step - std::exchange(done, step)) / trial.comm().size());
    if (!trial.report(step, loss(step))) break;
  }
  return loss(rungs.max_steps);
}

SearchResult result_of(const tw::Communicator& comm, uint64_t seed, const std::optional<GrowthOptions>& growth) {
  const auto by_chance = [](const Seat& seat) { return std::make_unique<Breeder>(seat.space, uniform_child()); };
  Search search(comm, {real("x", 0, 1)}, wait_and_report,
                {.evaluations = evaluations, .seed = seed, .propagator = by_chance, .promotion = rungs, .growth = growth});
  return search.run();
}

struct Series {
  std::vector<double> seconds;
  std::vector<double> busy;
  void add(const SearchResult& result) {
    seconds.push_back(result.seconds);
    busy.push_back(result.busy);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator& comm = mpi.world();
  const int runs = argc > 1 ? std::atoi(argv[1]) : 9;
  Series alone;
  Series grown;
  for (int run = 0; run < runs; ++run) {
    alone.add(result_of(comm, static_cast<uint64_t>(run), std::nullopt));
    grown.add(result_of(comm, static_cast<uint64_t>(run), GrowthOptions{.ranks = {1, 2, comm.size()}}));
  }
  if (comm.rank() != 0) return 0;
  std::printf("%d ranks, medians of %d: each trial on one rank %.2f s, %.0f %% busy; growing to all %.2f s, %.0f %% busy\n", comm.size(), runs,
              median_of(alone.seconds), 100 * median_of(alone.busy), median_of(grown.seconds), 100 * median_of(grown.busy));
  const bool is_sooner = median_of(grown.seconds) < median_of(alone.seconds);
  std::printf("%s\n", is_sooner ? "grown trials end sooner" : "NOT AS EXPECTED");
  return is_sooner ? 0 : 1;
}
