// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/evolution/stopping.hpp>

namespace tw::search {
namespace stopping_test {

bool report(StoppingRule& rule, const Report& report) {
  rule.observe(report);
  return rule.should_continue(report);
}

TEST(Median, StopsWhatIsWorseThanTheMedian) {
  const auto rule = median_rule({.grace = 1, .min_trials = 3});
  for (int64_t trial = 0; trial < 3; ++trial) {
    for (int64_t step = 1; step <= 3; ++step) EXPECT_TRUE(report(*rule, {trial, step, static_cast<double>(trial + 1)}));
  }
  EXPECT_TRUE(report(*rule, {10, 1, 9}));   // grace period
  EXPECT_FALSE(report(*rule, {10, 2, 9}));  // the median is 2
  EXPECT_TRUE(report(*rule, {11, 1, 9}));
  EXPECT_TRUE(report(*rule, {11, 2, 1.5}));
  EXPECT_TRUE(report(*rule, {11, 3, 9})) << "its best counts";
  EXPECT_TRUE(report(*rule, {12, 4, 99})) << "nobody has come so far";
  EXPECT_FALSE(report(*rule, {13, 1, NAN}));
}

/// 300 trials of 100 steps, whose values fall from 1 to ends spread evenly between 0 and 1/2, and never cross. Half of the trials that reach a step
/// continue, which makes 3,286 steps. Means since the first step, which lag on falling curves, would need 19,986.
TEST(Median, StopsMostOfWhatFalls) {
  constexpr int64_t trials = 300;
  constexpr int64_t steps = 100;
  const auto rule = median_rule();
  const std::vector<int64_t> order = random_permutation(trials, 1, 0);
  int64_t spent = 0;
  bool best_ends = false;
  for (int64_t trial = 0; trial < trials; ++trial) {
    const double end = 0.5 * static_cast<double>(order[static_cast<size_t>(trial)]) / trials;
    for (int64_t step = 1; step <= steps; ++step, ++spent) {
      if (!report(*rule, {trial, step, end + (1 - end) * std::exp(-static_cast<double>(step) / 10)})) break;
      best_ends = best_ends || (end == 0 && step == steps);
    }
  }
  EXPECT_LT(spent, trials * steps / 6);
  EXPECT_TRUE(best_ends);
}

TEST(Median, ATrialThatIsBegunAgainStartsOver) {
  const auto rule = median_rule({.grace = 0, .min_trials = 1});
  for (int64_t step = 1; step <= 3; ++step) rule->observe({0, step, 1});
  EXPECT_TRUE(report(*rule, {0, 1, 7}));
  EXPECT_TRUE(report(*rule, {1, 1, 6})) << "7 is what the other one had at step 1";
  EXPECT_TRUE(report(*rule, {1, 2, 9})) << "nobody has come so far";
}

/// By definition: at each rung, among the best 1/eta (at least one) of all trials that have reached it so far.
TEST(Halving, IsItsDefinition) {
  const HalvingOptions options{.grace = 1, .eta = 3, .max_steps = 27};
  const auto rule = halving_rule(options);
  std::map<int64_t, std::vector<double>> rungs{{1, {}}, {3, {}}, {9, {}}};
  CounterRng random(1);
  int stopped = 0;
  for (int64_t trial = 0; trial < 300; ++trial) {
    for (int64_t step = 1; step <= 27; ++step) {
      const double value = random.below(1000);
      const bool should_continue = report(*rule, {trial, step, value});
      bool expected = true;
      if (const auto rung = rungs.find(step); rung != rungs.end()) {
        rung->second.push_back(value);
        std::vector<double> sorted = rung->second;
        std::ranges::sort(sorted);
        expected = value <= sorted[std::max<size_t>(1, sorted.size() / 3) - 1];
      }
      ASSERT_EQ(should_continue, expected) << "trial " << trial << ", step " << step;
      stopped += should_continue ? 0 : 1;
      if (!should_continue) break;
    }
  }
  EXPECT_GT(stopped, 200);
}

TEST(Halving, ReportsNeedNotMeetRungs) {
  const auto rule = halving_rule({.grace = 2, .eta = 2, .max_steps = 100});
  EXPECT_TRUE(report(*rule, {0, 5, 1}));  // passes both rungs, 2 and 4
  EXPECT_FALSE(report(*rule, {1, 3, 2}));
  EXPECT_TRUE(report(*rule, {2, 1, 99}));
}

TEST(Halving, WhatIsInfinitePassesNoRung) {
  const auto rule = halving_rule({.grace = 2, .eta = 2, .max_steps = 100});
  EXPECT_TRUE(report(*rule, {0, 1, INFINITY})) << "before the first one";
  EXPECT_FALSE(report(*rule, {0, 2, INFINITY})) << "the first at the rung";
  EXPECT_TRUE(report(*rule, {1, 2, 5}));
}

TEST(Hyperband, BracketsGetTheirShares) {
  // ceil(5 81 / 5), ceil(5 27 / 4), ceil(5 9 / 3), ceil(5 3 / 2), ceil(5 / 1)
  const std::map<int, int> shares{{0, 81}, {1, 34}, {2, 15}, {3, 8}, {4, 5}};
  for (const int64_t first : {0, 143}) {
    std::map<int, int> counts;
    for (int64_t trial = first; trial < first + 143; ++trial) ++counts[bracket_of(trial, 5, 3)];
    EXPECT_EQ(counts, shares);
  }
  const auto rule = hyperband_rule(2, {.grace = 1, .eta = 2, .max_steps = 8});
  EXPECT_EQ(bracket_of(2, 2, 2), 1);
  EXPECT_TRUE(report(*rule, {0, 1, 1}));
  EXPECT_FALSE(report(*rule, {1, 1, 2})) << "bracket 0 has a rung at 1";
  EXPECT_TRUE(report(*rule, {2, 1, 99})) << "bracket 1 begins at 2";
}

TEST(Stopping, RefusesWrongOptions) {
  EXPECT_THROW(halving_rule({.grace = 0}), ContractError);
  EXPECT_THROW(halving_rule({.eta = 1}), ContractError);
  EXPECT_THROW(halving_rule({.max_steps = int64_t{1} << 53}), ContractError);
  EXPECT_THROW(hyperband_rule(0), ContractError);
  EXPECT_THROW(hyperband_rule(4, {.grace = 1, .eta = 4, .max_steps = 63}), ContractError);
  EXPECT_NO_THROW(hyperband_rule(4, {.grace = 1, .eta = 4, .max_steps = 64}));
  EXPECT_THROW(median_rule({.min_trials = 0}), ContractError);
}

}  // namespace stopping_test
}  // namespace tw::search
