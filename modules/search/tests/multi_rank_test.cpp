// SPDX-License-Identifier: Apache-2.0
// Workers of several ranks.
#include "mpi_test.hpp"

#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace multi_rank_test {

using testing::world;

int ranks_of_a_worker() { return world().size() % 2 == 0 ? 2 : world().size(); }

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
  EXPECT_LT(result.best.loss, 1e-3);
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

TEST(MultiRank, TheFirstRankDecidesWhetherATrialGoesOn) {
  Search search(world(), {real("x", 0, 1)},
                [](const Configuration& c, Trial& trial) -> Outcome {
                  int64_t step = 1;
                  while (step < 8 && trial.report(step, c.real("x") + trial.comm().rank())) ++step;
                  EXPECT_TRUE(all_agree(trial.comm(), std::to_string(step)));
                  return c.real("x");
                },
                {.ranks_per_worker = ranks_of_a_worker(), .evaluations = 60, .stopping = [] { return median_rule(); }});
  const SearchResult result = search.run();
  EXPECT_GT(result.pruned, 5);
  EXPECT_EQ(result.pruned + result.complete, 60);
}

}  // namespace multi_rank_test
}  // namespace tw::search
