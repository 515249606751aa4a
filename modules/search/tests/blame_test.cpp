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
  EXPECT_EQ(clear[3].sole_losses, 1);
  EXPECT_EQ(unclear[3].sole_losses, 0);
  EXPECT_EQ(judged({clear[3]}, {})[0].sole_losses, 2);
  for (const Interrupted& each : judged(all, {0, 1, 2, 3})) EXPECT_EQ(each.blame, each.was_in_flight ? Blame::none : all[2].blame);
}

/// A suspect alone is tried attempts - 1 times more, however often it was one of several before: whatever kills a job at some moment, such as the end
/// of its time, may hit it while it is alone.
TEST(Blame, GivesUpWhoWasAloneOftenEnough) {
  std::vector<Interrupted> trial{of(0, 0, 5, Blame::shared)};
  EXPECT_FALSE(is_given_up(trial[0], 2));
  for (const int losses : {1, 2, 3}) {
    trial = judged(trial, {});
    for (const int attempts : {1, 2, 3}) EXPECT_EQ(is_given_up(trial[0], attempts), losses >= attempts) << losses << " of " << attempts;
    trial = judged(trial, {0});  // asked to end: nothing is counted, and nothing forgotten
  }
}

/// Trials 0 and 4 were lost once, 1 and 3 twice, with others; 2 not at all, and 5 is given up.
TEST(Blame, TurnsComeOneAfterAnother) {
  std::vector<Interrupted> all{of(0, 0, 1, Blame::shared), of(1, 1, 2, Blame::shared), of(2, 2),
                               of(3, 3, 2, Blame::none),   of(4, 0, 1, Blame::sole),   of(5, 1, 2, Blame::sole)};
  all[4].sole_losses = 1;
  all[5].sole_losses = 2;
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
  late.advance_to(3);
  late.advance_to(2);  // overtaken
  EXPECT_TRUE(late.has(4));
}

}  // namespace blame_test
}  // namespace tw::search
