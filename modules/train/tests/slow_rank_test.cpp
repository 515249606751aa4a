// SPDX-License-Identifier: Apache-2.0
#include "slow_rank.hpp"

#include <gtest/gtest.h>

namespace slow_rank_test {

using tw::train::slowest_of;

TEST(SlowRank, IsTheOneThatWaitsLeast) {
  const auto slow = slowest_of({0.5, 0.75, 0.25, 0.25 + 0.75});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 2);
  EXPECT_DOUBLE_EQ(slow->share, (0.5 + 0.75 + 1.0) / 3 - 0.25);  // its own waits are no rank's fault
}

TEST(SlowRank, IsNobodyWhereAllWaitAlike) {
  EXPECT_FALSE(slowest_of({}));
  EXPECT_FALSE(slowest_of({0.0}));
  EXPECT_FALSE(slowest_of({0.9, 0.9, 0.9}));
  EXPECT_FALSE(slowest_of({0.30, 0.39}));
  EXPECT_TRUE(slowest_of({0.30, 0.41}));
}

}  // namespace slow_rank_test
