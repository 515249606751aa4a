// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "blame.hpp"

namespace tw::search {
namespace blame_test {

Interrupted of(int64_t trial, int worker, int losses = 0, Blame blame = Blame::none) {
  return {.individual = {.trial = trial}, .losses = losses, .blame = blame, .was_in_flight = true, .worker = worker};
}

TEST(Blame, FallsOnWhoMayHaveEndedTheJob) {
  std::vector<Interrupted> all{of(0, 0), of(1, 1, 1, Blame::sole), of(2, 2), of(3, 3, 1, Blame::shared)};
  all[2].was_in_flight = false;
  const std::vector<Interrupted> unclear = judged(all, {});
  for (const size_t i : {0, 1, 3}) EXPECT_EQ(unclear[i].blame, Blame::shared) << i;
  EXPECT_EQ(unclear[0].losses, 1);
  EXPECT_EQ(unclear[1].losses, 2);
  EXPECT_EQ(unclear[2].losses, 0) << "it had paused, or not begun again";
  const std::vector<Interrupted> clear = judged(all, {0, 1});
  EXPECT_EQ(clear[3].blame, Blame::sole);
  EXPECT_EQ(clear[3].losses, 2);
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(clear[i].blame, Blame::none) << i;
    EXPECT_EQ(clear[i].losses, all[i].losses) << i;
  }
  EXPECT_TRUE(is_given_up(clear[3], 2));
  EXPECT_FALSE(is_given_up(clear[3], 3));
  EXPECT_FALSE(is_given_up(unclear[3], 2)) << "often enough, but with others";
  all[0].helpers = {1, 4};
  EXPECT_EQ(judged(all, {0, 1, 3})[0].blame, Blame::sole) << "worker 4 was not asked, and may have ended in this trial";
  EXPECT_EQ(judged(all, {0, 1, 3, 4})[0].blame, Blame::none);
  all[0].helpers.clear();
  for (const Interrupted& each : judged(all, {0, 1, 2, 3})) EXPECT_EQ(each.blame, each.was_in_flight ? Blame::none : all[2].blame);
}

/// Trials 0 and 4 were lost once, 1 and 3 twice, with others; 2 not at all, and 5 is given up.
TEST(Blame, TurnsComeOneAfterAnother) {
  const std::vector<Interrupted> all{of(0, 0, 1, Blame::shared), of(1, 1, 2, Blame::shared), of(2, 2),
                                     of(3, 3, 2, Blame::none),   of(4, 0, 1, Blame::sole),   of(5, 1, 2, Blame::sole)};
  Turns turns(all, 2);
  std::vector<std::vector<int64_t>> allowed;
  for (int turn = 0; turn < 5; ++turn) {
    allowed.emplace_back();
    for (int64_t trial = 0; trial < 6; ++trial) {
      if (turns.allows(trial)) allowed.back().push_back(trial);
    }
    EXPECT_EQ(turns.allows_others(), turn >= 2);
    if (turn < 4) {
      EXPECT_TRUE(turns.has(std::vector<int64_t>{1, 3, 0, 4}[static_cast<size_t>(turn)]));
    }
    EXPECT_EQ(turns.pass(), turn + 1);
  }
  // Those without a turn of their own go with others that have not been lost.
  EXPECT_EQ(allowed, (std::vector<std::vector<int64_t>>{{1}, {3}, {0, 2, 5}, {2, 4, 5}, {2, 5}}));
  Turns late(all, 2);
  late.take(3);
  late.take(2);  // overtaken
  EXPECT_TRUE(late.has(4));
}

}  // namespace blame_test
}  // namespace tw::search
