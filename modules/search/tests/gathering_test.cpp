// SPDX-License-Identifier: Apache-2.0
#include "gathering.hpp"

#include <gtest/gtest.h>

namespace tw::search {
namespace gathering_test {

TEST(Claim, PrecedesByRungAndThenByTrial) {
  EXPECT_TRUE((Claim{.rung = 2, .trial = 9}.precedes({.rung = 1, .trial = 3})));
  EXPECT_FALSE((Claim{.rung = 1, .trial = 3}.precedes({.rung = 2, .trial = 9})));
  EXPECT_TRUE((Claim{.rung = 1, .trial = 3}.precedes({.rung = 1, .trial = 4})));
  EXPECT_FALSE((Claim{.rung = 1, .trial = 4}.precedes({.rung = 1, .trial = 4})));
}

TEST(Gathering, TakesThoseWhoComeFirst) {
  Gathering gathering(3, 1, 3, {{0, 1}, {1, 1}, {2, 1}});
  EXPECT_EQ(gathering.left(), 2);
  gathering.offer(2);
  EXPECT_FALSE(gathering.is_over());
  EXPECT_EQ(gathering.workers(), (std::vector<int32_t>{3, 2}));
  gathering.offer(0);
  EXPECT_TRUE(gathering.is_over());
  gathering.offer(1);
  EXPECT_EQ(gathering.workers(), (std::vector<int32_t>{3, 0, 2})) << "its own first, and no more than is wanted";
}

TEST(Gathering, WaitsForNobodyOfNoUse) {
  EXPECT_TRUE(Gathering(0, 4, 4, {{1, 1}}).is_over()) << "it has all that it wants";
  EXPECT_TRUE(Gathering(0, 4, 2, {{1, 1}}).is_over());
  EXPECT_TRUE(Gathering(0, 1, 4, {}).is_over()) << "there is nobody";
  EXPECT_TRUE(Gathering(0, 1, 2, {{1, 2}, {2, 4}}).is_over()) << "they are too large";
  Gathering gathering(0, 1, 3, {{1, 2}, {2, 1}});
  gathering.offer(2);
  EXPECT_TRUE(gathering.is_over()) << "the other one would be too large by now";
  gathering.offer(1);
  EXPECT_EQ(gathering.workers(), (std::vector<int32_t>{0, 2}));
}

}  // namespace gathering_test
}  // namespace tw::search
