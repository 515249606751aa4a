// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tw/base/random.hpp>
#include <tw/evolution/population.hpp>

namespace tw::search {
namespace population_test {

Individual of(int64_t trial, double loss, TrialState state = TrialState::complete) {
  return {.trial = trial, .values = {loss}, .loss = loss, .state = state};
}

/// Compares with a sorted list after any sequence of changes, with more individuals than are ranked.
TEST(Population, RanksAsASortedListDoes) {
  Population population;
  std::set<std::pair<double, int64_t>> expected;
  std::vector<double> losses;
  CounterRng random(3);
  for (int64_t step = 0; step < 20000; ++step) {
    const uint32_t what = random.below(10);
    if (what < 6 || losses.empty()) {
      const auto trial = static_cast<int64_t>(losses.size());
      losses.push_back(random.below(500));  // many are equal
      ASSERT_TRUE(population.add(of(trial, losses.back())));
      expected.emplace(losses.back(), trial);
    } else {
      const auto trial = static_cast<int64_t>(random.below(static_cast<uint32_t>(losses.size())));
      const std::pair key{losses[static_cast<size_t>(trial)], trial};
      if (what < 9) {
        ASSERT_EQ(population.deactivate(trial), expected.erase(key) == 1);
      } else {
        ASSERT_EQ(population.activate(trial), expected.insert(key).second);
      }
    }
    ASSERT_EQ(population.active(), expected.size());
    ASSERT_EQ(population.ranked_count(), std::min<size_t>(expected.size(), 1024));
    if (expected.empty()) continue;
    ASSERT_EQ(population.ranked(0).trial, expected.begin()->second);
    ASSERT_EQ(population.worst().trial, expected.rbegin()->second);
    if (step % 1000 != 0) continue;
    auto at = expected.begin();
    for (size_t rank = 0; rank < population.ranked_count(); ++rank, ++at) ASSERT_EQ(population.ranked(rank).trial, at->second);
    std::set<int64_t> active;
    for (size_t i = 0; i < population.active(); ++i) active.insert(population.active_at(i).trial);
    ASSERT_EQ(active.size(), expected.size());
  }
  EXPECT_GT(expected.size(), 2000U);
}

TEST(Population, WhatFailedIsKnownButNeverRanked) {
  Population population;
  population.add(of(0, 3));
  population.add(of(1, -1e300, TrialState::failed));
  population.add(of(2, -1e300, TrialState::infeasible));
  population.add(of(3, 2, TrialState::pruned));
  population.add(of(4, NAN));
  EXPECT_EQ(population.active(), 2U);
  EXPECT_EQ(population.best()->trial, 3);
  EXPECT_EQ(population.all().size(), 5U);
  EXPECT_FALSE(population.activate(1));
  EXPECT_FALSE(population.activate(4));
  EXPECT_FALSE(population.deactivate(1));
}

TEST(Population, WhatViolatesIsRankedLastByHowMuch) {
  Population population;
  const auto violating = [](int64_t trial, double loss, double violation) {
    Individual individual = of(trial, loss, TrialState::infeasible);
    individual.violation = violation;
    return individual;
  };
  population.add(violating(0, 1, 0.5));
  population.add(violating(1, 9, 0.25));
  population.add(of(2, -5, TrialState::infeasible));  // not evaluated
  EXPECT_EQ(population.best(), nullptr) << "nothing is allowed yet";
  population.add(of(3, 100));
  population.add(violating(4, INFINITY, 0.25));
  ASSERT_EQ(population.active(), 4U);
  for (const size_t rank : {0, 1, 2, 3}) EXPECT_EQ(population.ranked(rank).trial, (std::vector<int64_t>{3, 1, 4, 0})[rank]);
  EXPECT_EQ(population.best()->trial, 3);
  EXPECT_EQ(population.worst().trial, 0);
  EXPECT_TRUE(population.deactivate(1));
  EXPECT_TRUE(population.activate(1));
}

TEST(Population, KnowsATrialOnce) {
  Population population;
  EXPECT_TRUE(population.add(of(7, 1)));
  EXPECT_FALSE(population.add(of(7, 0)));
  EXPECT_EQ(population.find(7)->loss, 1);
  EXPECT_EQ(population.find(8), nullptr);
  population.deactivate(7);
  EXPECT_EQ(population.best()->trial, 7) << "the best ever stays, wherever it went";
}

}  // namespace population_test
}  // namespace tw::search
