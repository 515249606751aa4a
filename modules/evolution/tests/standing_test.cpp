// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tw/evolution/individual.hpp>
#include <vector>

namespace tw::search {
namespace standing_test {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Standing failed = {};

TEST(Standing, OrdersByViolationBeforeLoss) {
  const std::vector<Standing> order{{0, -infinity}, {0, 1}, {0, 2}, {0.1, 7}, {0.1, 8}, {5, -3}, failed};
  for (size_t i = 1; i < order.size(); ++i) EXPECT_LT(order[i - 1], order[i]) << i;
  EXPECT_EQ(gain({0, 5}, {0, 2}), 3);
  EXPECT_EQ(gain({4, 5}, {1, 9}), 3);
  EXPECT_EQ(gain({0, 5}, {2, 1}), -2);
  EXPECT_EQ(gain({0, 5}, failed), -infinity);
}

TEST(Standing, IsThatOfAnIndividual) {
  EXPECT_EQ((Individual{.loss = 3, .state = TrialState::pruned}.standing()), (Standing{0, 3}));
  EXPECT_EQ((Individual{.loss = 3, .violation = 2, .state = TrialState::infeasible}.standing()), (Standing{2, 3}));
  EXPECT_EQ((Individual{.loss = 3, .state = TrialState::infeasible}.standing()), failed) << "by the space, which gives no violation";
  EXPECT_EQ((Individual{.loss = 3, .state = TrialState::failed}.standing()), failed);
}

/// Losses are 1 to 5, so violations are mapped to values between 5 and 9.
TEST(Standing, MeritsPutViolationsAboveLosses) {
  const std::vector<Standing> standings{{0, 5}, {8, 0}, {0, 1}, {2, infinity}, failed};
  EXPECT_EQ(merits(standings), (std::vector<double>{5, 9, 1, 6, infinity}));
}

TEST(Standing, MeritsOfViolationsAloneAreThese) {
  EXPECT_EQ(merits(std::vector<Standing>{{8, 0}, {2, -1}, failed}), (std::vector<double>{8, 2, infinity}));
  EXPECT_EQ(merits(std::vector<Standing>{{0, 3}, {8, 0}, {2, -1}}), (std::vector<double>{3, 11, 5})) << "one loss has no range";
  EXPECT_EQ(merits(std::vector<Standing>{{0, -infinity}, {8, 0}, {0, infinity}}), (std::vector<double>{-infinity, 8, infinity}));
}

}  // namespace standing_test
}  // namespace tw::search
