// SPDX-License-Identifier: Apache-2.0
// A worker of two ranks, one of which computes for longer than the watchdog allows: program SCENARIO.
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <tw/mpi.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace std::chrono_literals;
using namespace tw::search;

constexpr auto stall_abort = 600ms;

void compute_alone() { std::this_thread::sleep_for(2 * stall_abort); }

/// In trial 0 the first rank waits for the other at the end; in trial 1 the other waits for the first one's report.
Outcome patient(const Configuration& c, Trial& trial) {
  const bool is_first = trial.comm().rank() == 0;
  if (trial.number() == 0 && !is_first) compute_alone();
  if (trial.number() == 1 && is_first) compute_alone();
  if (trial.number() >= 1) trial.report(1, c.real("x"));
  return c.real("x");
}

/// In trial 2 the first rank waits in a collective of the objective, on its own communicator.
Outcome impatient(const Configuration& c, Trial& trial) {
  if (trial.number() == 2 && trial.comm().rank() == 1) {
    while (true) compute_alone();
  }
  trial.comm().dup().barrier();
  return c.real("x");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argv[1];
  const tw::Environment mpi(argc, argv, {.audit = false, .stall_warning = stall_abort / 2, .stall_abort = stall_abort});
  Search search(mpi.world(), {real("x", 0, 1)}, scenario == "patient" ? patient : impatient, {.ranks_per_worker = 2, .evaluations = 3});
  const SearchResult result = search.run();
  if (mpi.world().rank() == 0) std::cout << "complete: " << result.complete << std::endl;
}
