// SPDX-License-Identifier: Apache-2.0
// Workers of several ranks.
#include "mpi_test.hpp"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <filesystem>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace multi_rank_test {

using testing::world;

int ranks_of_a_worker() { return world().size() % 2 == 0 ? 2 : world().size(); }

/// As unequal as two or more workers can be: the others have one rank.
std::vector<int> unequal_workers() {
  if (world().size() < 3) return std::vector<int>(static_cast<size_t>(world().size()), 1);
  return world().size() == 3 ? std::vector<int>{1, 2} : std::vector<int>{1, world().size() - 2, 1};
}

/// The size of the worker of each rank.
int own_ranks(const std::vector<int>& workers, int rank) {
  size_t worker = 0;
  for (int behind = workers[0]; behind <= rank; behind += workers[worker]) ++worker;
  return workers[worker];
}

double sum(const Communicator& comm, double value) {
  mpi::allreduce(comm, {&value, 1, ElementType::float64}, ReduceOp::sum);
  return value;
}

TEST(MultiRank, EvaluatesTogether) {
  Search search(world(), {real("x", -1, 1), integer("n", 1, 4)},
                [](const Configuration& c, Trial& trial) -> Outcome {
                  EXPECT_EQ(trial.comm().size(), ranks_of_a_worker());
                  EXPECT_TRUE(all_agree(trial.comm(), c.describe() + std::to_string(trial.rng()())));
                  return sum(trial.comm(), c.real("x") * c.real("x")) / trial.comm().size();
                },
                {.ranks_per_worker = ranks_of_a_worker(), .evaluations = 300});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 300);
  EXPECT_TRUE(all_agree(world(), concat(result.best.trial, ' ', result.best.loss, ' ', result.complete)));
  EXPECT_LT(result.best.loss, 0.05) << "of 300 uniform ones, 1 in 1e32 times all are above";
}

/// It revokes its communicator, as a part of it may that fails, and has a value all the same. On workers of one rank, too.
TEST(MultiRank, ATrialThatCatchesAFailureHurtsNoOther) {
  for (const int ranks : {1, ranks_of_a_worker()}) {
    Search search(world(), {real("x", -1, 1)},
                  [](const Configuration& c, Trial& trial) -> Outcome {
                    if (trial.number() % 2 == 1) return sum(trial.comm(), c.real("x") * c.real("x"));
                    if (trial.comm().rank() == 0) trial.comm().revoke("a part of the trial failed");
                    return 2.0;
                  },
                  {.ranks_per_worker = ranks, .evaluations = 20 * world().size()});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete, 20 * world().size()) << result.first_failure;
  }
}

TEST(MultiRank, WorkersOfDifferentSizes) {
  const std::vector<int> workers = unequal_workers();
  const int ranks = own_ranks(workers, world().rank());
  const auto folder = std::filesystem::path(::testing::TempDir()) / concat("multi_rank_", world().size());
  if (world().rank() == 0) std::filesystem::remove_all(folder);
  world().barrier();
  Search search(world(), {real("x", -1, 1)},
                [ranks](const Configuration& c, Trial& trial) -> Outcome {
                  EXPECT_EQ(trial.comm().size(), ranks);
                  EXPECT_TRUE(all_agree(trial.comm(), concat(c.describe(), trial.number())));
                  return sum(trial.comm(), c.real("x") * c.real("x")) / trial.comm().size();
                },
                {.islands = workers.size() > 2 ? 2 : 1, .worker_ranks = workers, .evaluations = 300, .journal = folder});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 300) << result.first_failure;
  EXPECT_LT(result.best.loss, 0.05);
  EXPECT_TRUE(all_agree(world(), concat(result.best.trial, ' ', result.best.loss)));
  if (world().rank() != 0) return;
  const Ledger ledger = read_ledger(folder, search.space());
  EXPECT_EQ(ledger.worker_ranks, workers);
  std::vector<int> trials(workers.size());
  for (const LedgerEntry& each : ledger.trials) ++trials[static_cast<size_t>(each.worker)];
  EXPECT_GT(*std::ranges::min_element(trials), 0);
}

/// What was found stays, and trials get new numbers, when workers change their sizes, though not their number.
TW_TEST_ON(MultiRank, GoesOnWithWorkersOfOtherSizes, {.least = 3}) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / concat("multi_rank_resized_", world().size());
  if (world().rank() == 0) std::filesystem::remove_all(folder);
  world().barrier();
  const std::vector<std::vector<int>> runs{{world().size() - 1, 1}, {1, world().size() - 1}, {1, world().size() - 1}};
  int64_t evaluations = 0;
  for (const std::vector<int>& workers : runs) {
    evaluations += 30;
    const int ranks = own_ranks(workers, world().rank());
    Search search(world(), {real("x", -1, 1)},
                  [ranks](const Configuration& c, Trial& trial) -> Outcome {
                    EXPECT_EQ(trial.comm().size(), ranks);
                    return c.real("x");
                  },
                  {.worker_ranks = workers, .evaluations = evaluations, .journal = folder});
    EXPECT_EQ(search.run().complete, evaluations);
    world().barrier();
    if (world().rank() != 0) continue;
    const Ledger ledger = read_ledger(folder, search.space());
    EXPECT_EQ(ledger.worker_ranks, workers);
    EXPECT_EQ(ledger.epochs, evaluations == 30 ? 1 : 2) << "the same workers go on where they were";
  }
}

/// One rank of a worker throws, the others wait for it in a collective: the trial has failed, and the worker goes on.
TEST(MultiRank, OneRankThatThrowsReleasesTheOthers) {
  Search search(world(), {real("x", 0, 1)},
                [](const Configuration& c, Trial& trial) -> Outcome {
                  if (trial.number() % 3 == 1 && trial.comm().rank() == trial.comm().size() - 1) throw std::runtime_error("broken part");
                  return sum(trial.comm(), c.real("x"));
                },
                {.ranks_per_worker = ranks_of_a_worker(), .evaluations = 30});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.failed, 30);
  EXPECT_GE(result.failed, 9);
  EXPECT_LE(result.failed, 11);
  if (search.population().all().empty()) return;  // not a worker's first rank
  EXPECT_NE(result.first_failure.find("broken part"), std::string::npos) << result.first_failure;
}

/// A few communicators a trial, in fewer places than the trials.
TEST(MultiRank, TrialsThatFailLeaveNoCommunicators) {
  const Environment here = Environment::adopt();
  const int64_t before = here.communicators_to_free();
  int64_t most = 0;
  Search search(world(), {real("x", 0, 1)},
                [&](const Configuration&, Trial& trial) -> Outcome {
                  most = std::max(most, here.communicators_to_free());
                  const Communicator part = trial.comm().dup();
                  barrier(part);
                  if (trial.number() % 3 == 0 || part.rank() == part.size() - 1) throw std::runtime_error("given up");
                  while (true) allreduce(part, at::ones({4}), ReduceOp::sum);
                },
                {.ranks_per_worker = ranks_of_a_worker(), .evaluations = 60});
  EXPECT_EQ(search.run().failed, 60);
  EXPECT_LE(most, before + 64);
}

TEST(MultiRank, TheFirstRankDecidesWhetherATrialGoesOn) {
  Search search(world(), {real("x", 0, 1)},
                [](const Configuration& c, Trial& trial) -> Outcome {
                  int64_t step = 1;
                  while (step < 8 && trial.report(step, c.real("x") + trial.comm().rank())) ++step;
                  EXPECT_TRUE(all_agree(trial.comm(), std::to_string(step)));
                  return c.real("x");
                },
                {.ranks_per_worker = ranks_of_a_worker(), .evaluations = 60, .scheduler = [] { return median_rule(); }});
  const SearchResult result = search.run();
  EXPECT_EQ(result.pruned + result.complete, 60);
  if (world().size() == ranks_of_a_worker()) {
    EXPECT_GT(result.pruned, 5);
  }
}

}  // namespace multi_rank_test
}  // namespace tw::search
