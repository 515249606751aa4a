// SPDX-License-Identifier: Apache-2.0
// One run of a search with growing trials that kill_growth.sh kills: it goes on from its journal, and checks at the end what that has.
// Run: mpirun -n RANKS accept_growth_kills FOLDER EVALUATIONS [deadly], where trial 0, which is the best, kills the last rank that helps with it
#include <ATen/ops/zeros.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace tw::search;

constexpr HalvingOptions rungs{.grace = 1, .eta = 2, .max_steps = 8};

double loss_at(double x, double way) { return x + 1 / (1 + way); }

Outcome walk(const Configuration& c, Trial& trial, bool deadly) {
  const bool helps = trial.comm().size() > 1 && trial.comm().rank() == trial.comm().size() - 1;
  if (deadly && helps && trial.number() == 0) std::raise(SIGKILL);
  const at::Tensor way = at::zeros({}, at::kDouble);
  for (int64_t step = trial.attach({{"way", way}}) + 1; step <= rungs.max_steps; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4) / trial.comm().size());  // what is being worked on
    way.add_(static_cast<double>(step));
    trial.comm().barrier();
    if (!trial.report(step, loss_at(c.real("x"), way.item<double>()))) break;
  }
  return loss_at(c.real("x"), way.item<double>());
}

/// Every trial has made its steps in their order, each from where it was. @return times that trials ran on several workers
int64_t check(const Ledger& ledger) {
  int64_t growths = 0;
  for (const LedgerEntry& entry : ledger.trials) {
    const int64_t trial = entry.individual.trial;
    double way = 0;
    int64_t step = 0;
    for (const Report& each : entry.reports) {
      way += static_cast<double>(each.step);
      if (each.step != ++step) throw tw::Error(tw::concat("trial ", trial, " reports step ", each.step, " after ", step - 1));
      if (each.value != loss_at(entry.individual.values[0], way)) throw tw::Error(tw::concat("trial ", trial, " is wrong from step ", step));
    }
    growths += static_cast<int64_t>(entry.growths.size());
  }
  return growths;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const tw::Environment mpi(argc, argv);
  const bool deadly = argc > 3;
  const Space space{real("x", 0, 1).starting_at("0")};
  Search search(mpi.world(), space, [deadly](const Configuration& c, Trial& trial) { return walk(c, trial, deadly); },
                {.evaluations = std::atoll(argv[2]),
                 .seed = 1,
                 .journal = argv[1],
                 .attempts = deadly ? 2 : 1000,  // random moments may hit a trial again and again
                 .promotion = rungs,
                 .growth = {{.ranks = {1, 2, mpi.world().size()}, .patience = deadly ? 600 : 0.02}}});
  const SearchResult result = search.run();
  if (mpi.world().rank() != 0) return 0;
  std::printf("%lld ended, %lld failed, %lld times on several workers\n", static_cast<long long>(result.complete + result.pruned + result.failed),
              static_cast<long long>(result.failed), static_cast<long long>(check(read_ledger(argv[1], space))));
}
