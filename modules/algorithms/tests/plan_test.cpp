// SPDX-License-Identifier: Apache-2.0
// Every plan for 1 to 64 ranks: each contribution is in each result exactly once, no rank waits for ever or needs a buffer, and steps and bytes equal
// the formulas.
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "symbolic_ranks.hpp"

namespace plan_test {

using tw::Collective;
using namespace tw::algorithms;
using tw::algorithms::testing::SymbolicRanks;
using tw::testing::message_of;

constexpr std::array all_collectives{Collective::barrier,   Collective::broadcast,      Collective::allreduce, Collective::reduce,
                                     Collective::allgather, Collective::reduce_scatter, Collective::alltoall};

void for_each_pair(const std::function<void(Algorithm, Collective)>& body) {
  for (int i = 0; i < algorithm_count; ++i) {
    for (const Collective collective : all_collectives) {
      if (can(static_cast<Algorithm>(i), collective)) body(static_cast<Algorithm>(i), collective);
    }
  }
}

bool has_root(Collective collective) { return collective == Collective::broadcast || collective == Collective::reduce; }

std::vector<int64_t> pipelines_of(Algorithm algorithm) {
  if (algorithm == Algorithm::chain) return {1, 2, 7};
  if (algorithm == Algorithm::double_tree) return {1, 2, 3, 7, 16};
  return {1};
}

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!has_root(collective)) return {0};
  std::set<int> roots{0, ranks / 2, ranks - 1};
  return {roots.begin(), roots.end()};
}

TEST(Plans, GiveEveryRankEveryContributionOnce) {
  for_each_pair([](Algorithm algorithm, Collective collective) {
    for (int ranks = 1; ranks <= tw::algorithms::testing::max_ranks; ++ranks) {
      for (const int root : roots_of(collective, ranks)) {
        for (const int64_t pipelined : pipelines_of(algorithm)) {
          const Task task{.collective = collective, .ranks = ranks, .rank = 0, .root = root, .pipelined = pipelined};
          const std::string name = tw::concat(name_of(algorithm), " ", tw::name_of(collective), " of ", ranks, " ranks, root ", root);
          try {
            SymbolicRanks all(algorithm, task);
            all.run();
            EXPECT_EQ(all.cost(), cost_of(algorithm, task)) << name;
          } catch (const std::logic_error& error) {
            FAIL() << name << ": " << error.what();
          }
        }
      }
    }
  });
}

TEST(Plans, ThereIsOneForEveryCollective) {
  for (const Collective collective : all_collectives) {
    int algorithms = 0;
    for (int i = 0; i < algorithm_count; ++i) algorithms += can(static_cast<Algorithm>(i), collective) ? 1 : 0;
    EXPECT_GE(algorithms, 1) << tw::name_of(collective);
  }
}

// The checker must find errors.
TEST(Plans, AChangedPlanIsRefuted) {
  const auto refuted = [](const std::function<void(SymbolicRanks&)>& change) {
    SymbolicRanks all(Algorithm::ring, {.collective = Collective::allreduce, .ranks = 4});
    change(all);
    return message_of([&] { all.run(); });
  };
  EXPECT_EQ(refuted([](SymbolicRanks&) {}), "nothing thrown");
  EXPECT_EQ(refuted([](SymbolicRanks& all) { all.plan(2).steps.pop_back(); }), "rank 1 of 4 in step 5 waits for ever");
  EXPECT_EQ(refuted([](SymbolicRanks& all) { all.plan(2).steps[1].local_operations.clear(); }), "rank 0 of 4 in step 6 ends with a wrong block 0");
  EXPECT_EQ(refuted([](SymbolicRanks& all) { all.plan(2).steps[0].sends[0].run.block = 3; }),
            "rank 3 of 4 in step 0 receives other blocks than are sent");
  EXPECT_EQ(refuted([](SymbolicRanks& all) { all.plan(2).steps[0].receives[0].run = {Area::output, 2}; }),
            "rank 2 of 4 in step 0 receives where it sends from");
  EXPECT_EQ(refuted([](SymbolicRanks& all) { all.plan(2).steps[0].local_operations.push_back(all.plan(2).steps[0].local_operations[0]); }),
            "rank 2 of 4 in step 0 adds a contribution twice");
}

TEST(Plans, RefuseWhatThereIsNot) {
  const auto refusal = [](const Task& task) { return message_of([&] { (void)make_plan(Algorithm::ring, task); }); };
  EXPECT_NE(refusal({.collective = Collective::alltoall, .ranks = 2}).find("the algorithm 'ring' does not implement alltoall"), std::string::npos);
  EXPECT_NE(refusal({.ranks = 2, .rank = 2}).find("there is no plan for rank 2 of 2 with root 0"), std::string::npos);
}

}  // namespace plan_test
