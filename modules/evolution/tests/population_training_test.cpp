// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/population_training.hpp>

namespace tw::search {
namespace population_training_test {

/// Eight members that report their number as value, at one step.
PopulationTraining eight(const PopulationTrainingOptions& options) {
  PopulationTraining training(options);
  for (int64_t trial = 0; trial < 8; ++trial) training.observe({trial, 1, static_cast<double>(trial)});
  return training;
}

std::optional<int64_t> original(const PopulationTraining& training, const Report& report, uint64_t stream = 0) {
  CounterRng random(1, stream);
  return training.original_for(report, random);
}

TEST(PopulationTraining, TheBottomCopiesTheTop) {
  const PopulationTraining training = eight({});
  for (int64_t trial = 0; trial < 6; ++trial) EXPECT_FALSE(original(training, {trial, 1, static_cast<double>(trial)})) << trial;
  for (int64_t trial = 6; trial < 8; ++trial) {
    std::map<int64_t, int> counts;
    for (uint64_t stream = 0; stream < 1000; ++stream) ++counts[original(training, {trial, 1, static_cast<double>(trial)}, stream).value()];
    EXPECT_EQ(counts.size(), 2U);
    EXPECT_NEAR(counts[0], 500, 80);  // binomial, deviation 16
    EXPECT_EQ(counts[0] + counts[1], 1000);
  }
}

TEST(PopulationTraining, EqualDrawsGiveEqualOriginals) {
  const PopulationTraining training = eight({.quantile = 0.5});
  std::set<int64_t> seen;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    const auto first = original(training, {7, 1, 7}, stream);
    EXPECT_EQ(first, original(training, {7, 1, 7}, stream));
    seen.insert(first.value());
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3}));
}

TEST(PopulationTraining, OneAtLeastAndNobodyAlone) {
  PopulationTraining training({});
  training.observe({0, 1, 5});
  EXPECT_FALSE(original(training, {0, 1, 5}));
  training.observe({1, 1, 6});
  EXPECT_FALSE(original(training, {0, 1, 5}));
  EXPECT_EQ(original(training, {1, 1, 6}), 0);
}

TEST(PopulationTraining, MembersAreComparedAtTheStepOfTheOneThatReports) {
  PopulationTraining training({});
  training.observe({0, 1, 5});
  training.observe({0, 2, 1});
  training.observe({1, 1, 4});
  EXPECT_FALSE(original(training, {1, 1, 4})) << "at step 1 it is the better one";
  training.observe({1, 2, 3});
  EXPECT_EQ(original(training, {1, 2, 3}), 0);
  training.observe({2, 2, 0.5});
  training.observe({1, 3, 2});
  EXPECT_EQ(original(training, {1, 3, 2}), 2) << "others count with their last value before";
}

/// Members 0 and 1 are far ahead. Members 2 and 3, which are worse, must not keep the worse of the two from copying the better.
TEST(PopulationTraining, WhoLagsIsNotComparedWith) {
  PopulationTraining training({.interval = 2});
  for (int64_t step = 1; step <= 6; ++step) {
    for (int64_t trial = 0; trial < 4; ++trial) {
      if (trial < 2 || step < 4) training.observe({trial, step, static_cast<double>(trial) - static_cast<double>(step)});
    }
  }
  EXPECT_EQ(original(training, {1, 6, -5}), 0);
  EXPECT_FALSE(original(training, {1, 5, -4})) << "at step 5 those of step 3 count";
  EXPECT_EQ(original(training, {3, 3, 0}), 0);
}

/// Of m equal members, each is randomly the worst, and copies any other.
TEST(PopulationTraining, ChanceDecidesBetweenEqualMembers) {
  PopulationTraining training({});
  for (int64_t trial = 0; trial < 4; ++trial) training.observe({trial, 1, 0.5});
  for (int64_t trial = 0; trial < 4; ++trial) {
    std::map<int64_t, int> counts;
    for (uint64_t stream = 0; stream < 3000; ++stream) {
      const auto copied = original(training, {trial, 1, 0.5}, stream);
      EXPECT_EQ(copied, original(training, {trial, 1, 0.5}, stream));
      ++counts[copied.value_or(-1)];
    }
    EXPECT_FALSE(counts.contains(trial));
    EXPECT_NEAR(counts[-1], 2250, 120);  // binomial, deviation 24; 250 for each of the others, deviation 15
    for (const auto& [other, count] : counts) {
      if (other >= 0) {
        EXPECT_NEAR(count, 250, 75) << other;
      }
    }
    EXPECT_EQ(counts.size(), 4U);
  }
}

TEST(PopulationTraining, EqualMembersStayAheadOfWorseOnes) {
  PopulationTraining training({.quantile = 0.5});
  for (const auto& [trial, value] : {std::pair(0, 1.0), {1, 1.0}, {2, 1.0}, {3, 2.0}}) training.observe({trial, 1, value});
  std::map<int64_t, int> copies;
  for (uint64_t stream = 0; stream < 300; ++stream) {
    for (int64_t trial = 0; trial < 4; ++trial) copies[trial] += original(training, {trial, 1, trial == 3 ? 2.0 : 1.0}, stream) ? 1 : 0;
  }
  EXPECT_EQ(copies[3], 300);
  for (int64_t trial = 0; trial < 3; ++trial) EXPECT_NEAR(copies[trial], 100, 45) << "binomial, deviation 8";
}

/// A triangle wave at x, rounded up to three levels; 0 only in its troughs, which are a fiftieth of the range.
double level(double x) {
  const double height = std::abs(std::fmod(x, 2) - 1);
  return height < 0.02 ? 0 : std::ceil(3 * height);
}

/// Whether one of four members reaches a trough within 100 comparisons.
bool finds_trough(uint64_t seed) {
  const Space space{real("x", 0.1, 10, log_scale)};
  const PopulationTrainingOptions options;
  PopulationTraining training(options);
  CounterRng random(seed);
  std::map<int64_t, double> members;
  for (int64_t trial = 0; trial < 4; ++trial) members[trial] = 0.1 * std::pow(100, uniform(random));
  for (int64_t step = 1; step <= 100; ++step) {
    for (const auto& [trial, x] : members) training.observe({trial, step, level(x)});
    for (auto& [trial, x] : members) {
      if (level(x) == 0) return true;
      const auto copied = training.original_for({trial, step, level(x)}, random);
      if (copied) x = explored(space, {members[*copied]}, options, random)[0];
    }
  }
  return false;
}

/// If all members are equal, only copies of equal members can make progress. Without them 23 of 100 searches reach a trough, with them 92.
TEST(PopulationTraining, APlateauIsSearched) {
  int found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) found += finds_trough(seed) ? 1 : 0;
  EXPECT_GE(found, 80);
}

TEST(PopulationTraining, WhatDivergedCopiesAnother) {
  PopulationTraining training({});
  for (int64_t trial = 0; trial < 4; ++trial) training.observe({trial, 1, trial == 1 ? NAN : 1e300 * static_cast<double>(trial)});
  EXPECT_EQ(original(training, {1, 1, NAN}), 0);
  EXPECT_FALSE(original(training, {3, 1, 3e300}));
  training.observe({0, 2, NAN});
  EXPECT_EQ(original(training, {0, 2, NAN}), 2) << "as do others, however many diverged";
  training.observe({1, 2, INFINITY});
  EXPECT_EQ(original(training, {1, 2, INFINITY}), 2);
}

TEST(PopulationTraining, WhatHasEndedIsComparedWithAndNotCopied) {
  PopulationTraining training = eight({});
  training.end(0);
  std::set<int64_t> copied;
  for (uint64_t stream = 0; stream < 50; ++stream) copied.insert(original(training, {7, 1, 7}, stream).value());
  EXPECT_EQ(copied, (std::set<int64_t>{1, 2})) << "the best two of those that are left";
  for (int64_t trial = 1; trial < 7; ++trial) training.end(trial);
  EXPECT_FALSE(original(training, {7, 1, 7}));
}

TEST(PopulationTraining, IsDueOnceInAnInterval) {
  PopulationTraining training({.interval = 10, .max_steps = 60});
  std::set<int64_t> due;
  for (const int64_t step : {3, 9, 10, 11, 19, 25, 29, 47, 50, 60, 75}) {
    training.observe({0, step, 0});
    if (training.is_due({0, step, 0})) due.insert(step);
  }
  EXPECT_EQ(due, (std::set<int64_t>{10, 25, 47, 50}));
}

TEST(Explored, NumbersAreMultipliedOrDrawnAnew) {
  const Space space{real("lr", 1e-4, 1, log_scale), integer("batch", 1, 1000), ordinal("width", {8, 16, 32}), categorical("act", {"a", "b", "c"})};
  const std::vector<double> values{0.01, 100, 1, 2};
  int resampled = 0;
  int rises = 0;
  std::map<double, int> widths;
  std::map<double, int> acts;
  for (uint64_t stream = 0; stream < 4000; ++stream) {
    CounterRng random(3, stream);
    const std::vector<double> tried = explored(space, values, {}, random);
    ASSERT_TRUE(space.contains(tried));
    const bool up = std::abs(tried[0] - 0.012) < 1e-12;
    const bool down = std::abs(tried[0] - 0.008) < 1e-12;
    resampled += up || down ? 0 : 1;
    rises += up ? 1 : 0;
    ++widths[tried[2]];
    ++acts[tried[3]];
  }
  // Binomial, 4000 draws: with probability 1/4 deviation 27, with 3/8 deviation 31. Tolerances are five of these.
  EXPECT_NEAR(resampled, 1000, 140);
  EXPECT_NEAR(rises, 1500, 155);
  EXPECT_NEAR(widths[0], 1500 + 1000 / 3, 160);
  EXPECT_NEAR(widths[1], 1000 / 3, 90);
  EXPECT_NEAR(acts[2], 3000 + 1000 / 3, 120);
}

TEST(Explored, IntegersMoveByOneAtLeastAndStayWithin) {
  const Space space{integer("n", 1, 3)};
  std::set<double> from_two;
  std::set<double> from_three;
  for (uint64_t stream = 0; stream < 100; ++stream) {
    CounterRng random(1, stream);
    from_two.insert(explored(space, {2}, {.resample = 0}, random)[0]);
    from_three.insert(explored(space, {3}, {.resample = 0}, random)[0]);
  }
  EXPECT_EQ(from_two, (std::set<double>{1, 3}));
  EXPECT_EQ(from_three, (std::set<double>{2, 3}));
}

TEST(Explored, WhatIsKeptStays) {
  const Space space{integer("width", 1, 100), real("lr", 0.1, 1)};
  for (uint64_t stream = 0; stream < 50; ++stream) {
    CounterRng random(1, stream);
    const std::vector<double> tried = explored(space, {40, 0.5}, {.frozen = {"width"}}, random);
    EXPECT_EQ(tried[0], 40);
    EXPECT_NE(tried[1], 0.5);
  }
}

TEST(Explored, WhatBeginsToExistIsDrawnAndWhatEndsToIsGone) {
  const Space space{categorical("opt", {"sgd", "adam"}), real("momentum", 0, 1).when("opt", {"sgd"})};
  bool appeared = false;
  bool went = false;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    CounterRng random(1, stream);
    const std::vector<double> sgd = explored(space, {1, NAN}, {.resample = 0.5}, random);
    EXPECT_EQ(std::isnan(sgd[1]), sgd[0] == 1);
    appeared = appeared || sgd[0] == 0;
    const std::vector<double> adam = explored(space, {0, 0.5}, {.resample = 0.5}, random);
    EXPECT_EQ(std::isnan(adam[1]), adam[0] == 1);
    went = went || adam[0] == 1;
  }
  EXPECT_TRUE(appeared && went);
}

TEST(Explored, StaysFeasible) {
  Space space{integer("a", 0, 9), integer("b", 0, 9)};
  space.require("a above b", [](const Configuration& c) { return c.integer("a") > c.integer("b"); });
  for (uint64_t stream = 0; stream < 200; ++stream) {
    CounterRng random(1, stream);
    EXPECT_TRUE(space.violated(explored(space, {5, 4}, {}, random)).empty());
  }
  space.require("a is 5", [](const Configuration& c) { return c.integer("a") == 5 && c.integer("b") == 4; });
  CounterRng random(1);
  EXPECT_EQ(explored(space, {5, 4}, {.resample = 0}, random), (std::vector<double>{5, 4}));
}

TEST(PopulationTraining, RefusesWrongOptions) {
  const Space space{real("lr", 0, 1)};
  EXPECT_NO_THROW(PopulationTrainingOptions().validate(space));
  EXPECT_THROW((PopulationTrainingOptions{.interval = 0}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.interval = 5, .max_steps = 4}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.quantile = 0.6}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.quantile = 0}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.resample = 1.5}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.up = 0.9}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.down = 0}).validate(space), ContractError);
  EXPECT_THROW((PopulationTrainingOptions{.frozen = {"lrr"}}).validate(space), ContractError);
}

}  // namespace population_training_test
}  // namespace tw::search
