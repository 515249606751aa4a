// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/evolution/promotion.hpp>
#include <utility>
#include <vector>

namespace tw::search {
namespace promotion_test {

TEST(Promotion, PromotesTheBestOfARungOnce) {
  Promotion promotion({.grace = 1, .eta = 2, .max_steps = 4});
  EXPECT_EQ(promotion.rungs(), 3);
  EXPECT_EQ(promotion.steps(2), 4);
  EXPECT_EQ(promotion.next().trial, -1);
  promotion.arrive({0, 1, 5});
  EXPECT_EQ(promotion.next().trial, -1);
  promotion.arrive({1, 1, 3});
  const auto first = promotion.next();
  EXPECT_EQ(first.trial, 1);
  EXPECT_EQ(first.rung, 1);
  EXPECT_EQ(promotion.next().trial, -1);
  promotion.arrive({2, 1, 4});
  promotion.arrive({3, 1, 9});
  EXPECT_EQ(promotion.next().trial, 2);
  for (int64_t trial = 4; trial < 8; ++trial) promotion.arrive({trial, 1, 2});
  promotion.arrive({1, 2, 2});
  promotion.arrive({2, 2, 1});
  EXPECT_EQ(promotion.next().rung, 2) << "higher rungs first";
}

TEST(Promotion, TrialsPauseWhereARungEnds) {
  Promotion promotion({.grace = 2, .eta = 2, .max_steps = 8});  // rungs at 2, 4 and 8
  EXPECT_FALSE(promotion.arrive({0, 1, 5}));
  EXPECT_TRUE(promotion.arrive({0, 2, 4}));
  EXPECT_FALSE(promotion.arrive({0, 3, 4})) << "between rungs";
  EXPECT_TRUE(promotion.arrive({0, 4, 3}));
  EXPECT_FALSE(promotion.arrive({0, 8, 2})) << "there is no higher one";
  EXPECT_FALSE(promotion.arrive({1, 2, NAN}));
  EXPECT_TRUE(promotion.arrive({2, 5, 1})) << "passes one rung and ends another";
  const auto promoted = promotion.next();
  EXPECT_EQ(promoted.trial, 2);
  EXPECT_EQ(promoted.rung, 2) << "from the highest that it has passed";
  EXPECT_EQ(promotion.next().trial, -1) << "two of rung 0, of which one has gone on";
}

/// It continued to the end, as if promoted from rung to rung.
TEST(Promotion, WhatIsInfiniteWaitsBehindAllOthers) {
  Promotion promotion({.grace = 1, .eta = 2, .max_steps = 4});
  EXPECT_TRUE(promotion.arrive({0, 1, INFINITY}));
  EXPECT_TRUE(promotion.arrive({1, 1, 5}));
  EXPECT_EQ(promotion.next().trial, 1) << "of two";
  EXPECT_EQ(promotion.next().trial, -1);
}

TEST(Promotion, OthersCountAndAreLeftToOthers) {
  Promotion promotion({.grace = 1, .eta = 2, .max_steps = 4});
  for (int64_t trial = 0; trial < 4; ++trial) {
    const Report report{trial, 1, static_cast<double>(trial)};
    trial == 1 || trial == 2 ? static_cast<void>(promotion.arrive(report)) : promotion.observe(report);
  }
  EXPECT_EQ(promotion.next().trial, 1) << "0 and 1 are the best half";
  EXPECT_EQ(promotion.next().trial, -1);
}

TEST(Promotion, EqualValuesGoByNumber) {
  Promotion promotion({.grace = 1, .eta = 3, .max_steps = 3});
  for (const int64_t trial : {5, 3, 4}) promotion.arrive({trial, 1, 0.5});
  EXPECT_EQ(promotion.next().trial, 3);
  EXPECT_EQ(promotion.next().trial, -1);
}

/// By definition: the best of the trials that wait at a rung, if it is among the best floor(m / eta) that reached the rung; from the highest rung
/// with such a trial.
TEST(Promotion, IsItsDefinition) {
  constexpr int64_t eta = 3;
  Promotion promotion({.grace = 1, .eta = eta, .max_steps = 27});
  struct Arrived {
    double value;
    int64_t trial;
    bool waits;
  };
  std::vector<std::vector<Arrived>> rungs(4);
  CounterRng random(1);
  std::map<int, int> promoted;  // by rung
  int64_t trials = 0;
  for (int turn = 0; turn < 2000; ++turn) {
    const Promotion::Promoted next = promotion.next();
    Promotion::Promoted expected;
    for (int rung = 2; rung >= 0 && expected.trial < 0; --rung) {
      auto& arrived = rungs[static_cast<size_t>(rung)];
      std::ranges::sort(arrived, {}, [](const Arrived& each) { return std::pair(each.value, each.trial); });
      for (size_t i = 0; i < arrived.size() / eta && expected.trial < 0; ++i) {
        if (std::exchange(arrived[i].waits, false)) expected = {arrived[i].trial, rung + 1};
      }
    }
    ASSERT_EQ(next.trial, expected.trial) << "turn " << turn;
    ASSERT_EQ(next.rung, expected.rung) << "turn " << turn;
    const int64_t trial = next.trial >= 0 ? next.trial : trials++;
    const double value = random.below(50);
    const bool is_mine = random.below(4) != 0;
    const Report report{trial, promotion.steps(next.rung), value};
    if (is_mine) {
      EXPECT_EQ(promotion.arrive(report), next.rung < 3);
    } else {
      promotion.observe(report);
    }
    rungs[static_cast<size_t>(next.rung)].push_back({value, trial, is_mine});
    ++promoted[next.rung];
  }
  EXPECT_GT(promoted[3], 5);
}

/// 10^5 trials at the first rung, two thirds of them another worker's. An earlier version scanned them all in each call, which took milliseconds.
TEST(Promotion, ManyTrialsCostNoMore) {
  Promotion promotion({.grace = 1, .eta = 4, .max_steps = 16});
  CounterRng random(1);
  const auto before = std::chrono::steady_clock::now();
  int64_t promoted = 0;
  for (int64_t trial = 0; trial < 100000; ++trial) {
    const Report report{trial, 1, static_cast<double>(random())};
    trial % 3 == 0 ? static_cast<void>(promotion.arrive(report)) : promotion.observe(report);
    if (promotion.next().trial >= 0) ++promoted;
  }
  EXPECT_GT(promoted, 5000) << "about a quarter of a third";
  // A microsecond each, with a margin of 20; scanning a quarter of all trials would take 50 s.
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
}

TEST(Promotion, RefusesWrongOptions) {
  EXPECT_THROW(Promotion({.eta = 1}), ContractError);
  const Promotion promotion({.grace = 1, .eta = 2, .max_steps = 4});
  EXPECT_THROW(promotion.steps(3), ContractError);
  EXPECT_THROW(promotion.steps(-1), ContractError);
}

}  // namespace promotion_test
}  // namespace tw::search
