// SPDX-License-Identifier: Apache-2.0
// What a report computes: how much each parameter matters, and a clock without the time between two starts.
#include "importance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ledgers.hpp"
#include "unbroken_clock.hpp"

namespace tw::search {
namespace importance_test {

using namespace testing;

TEST(Importance, OfTheOneParameterThatMatters) {
  const std::vector<std::function<double(const std::vector<double>&)>> functions{[](const auto& x) { return x[1]; },
                                                                                 [](const auto& x) { return (x[1] - 0.5) * (x[1] - 0.5); },
                                                                                 [](const auto& x) { return std::exp(30 * x[1]); }};
  for (const auto& function : functions) {
    const std::vector<double> shares = importance(long_ledger(2000, function, 3), unit_cube);
    ASSERT_EQ(shares.size(), 3U);
    EXPECT_LT(shares[0], 0.02);
    EXPECT_GT(shares[1], 0.95);
    EXPECT_LT(shares[2], 0.02);
  }
}

TEST(Importance, OfASumAndOfNoise) {
  const std::vector<double> sum = importance(long_ledger(5000, [](const auto& x) { return 2 * x[0] + x[1]; }, 3), unit_cube);
  EXPECT_NEAR(sum[0], 0.8, 0.05);
  EXPECT_NEAR(sum[1], 0.2, 0.05);
  const std::vector<double> noise =
      importance(long_ledger(60, [](const auto& x) { return std::fmod(1000 * (x[0] + x[1] + x[2]), 1); }, 3), unit_cube);
  for (const double share : noise) EXPECT_LT(share, 0.2);
}

TEST(Importance, OfChoicesStepsAndConditions) {
  const Space space{categorical("kind", {"a", "b", "c"}), real("step", 0, 1, Scale::linear, 0.5), real("only", 0, 1).when("kind", {"b"})};
  Ledger ledger = long_ledger(600, [](const auto&) { return 0; }, 3);
  for (LedgerEntry& entry : ledger.trials) {
    std::vector<double>& values = entry.individual.values;
    values = {std::floor(3 * values[0]), std::floor(3 * values[1]) / 2, values[2]};
    if (values[0] != 1) values[2] = none;
    entry.individual.loss = values[0] == 1 ? -1 : 1 + values[1];
  }
  const std::vector<double> shares = importance(ledger, space);
  EXPECT_GT(shares[0], 0.6);
  EXPECT_GT(shares[1], 0.1);
  EXPECT_LT(shares[1], 0.3);
  EXPECT_GT(shares[2], 0.6);  // by whether it exists
}

TEST(Importance, NeedsTrialsThatDiffer) {
  EXPECT_TRUE(importance(long_ledger(19, [](const auto& x) { return x[0]; }, 3), unit_cube).empty());
  EXPECT_TRUE(importance(long_ledger(100, [](const auto&) { return 1; }, 3), unit_cube).empty());
}

TEST(UnbrokenClock, LeavesOutBreaks) {
  Ledger ledger = long_ledger(8, [](const auto&) { return 1; }, 3);  // two seconds
  for (size_t i = 4; i < 8; ++i) {
    for (double* time : {&ledger.trials[i].begin, &ledger.trials[i].end, &ledger.trials[i].last_activity}) *time += 3600;
  }
  const UnbrokenClock clock(ledger);
  EXPECT_EQ(clock.breaks(), 1U);
  EXPECT_EQ(clock.left_out(), 3600);
  EXPECT_EQ(clock.total(), 2);
  EXPECT_EQ(clock.at(1e9 + 0.5), 0.5);
  EXPECT_EQ(clock.at(1e9 + 1000), 1);
  EXPECT_EQ(clock.at(1e9 + 3601.5), 1.5);
}

}  // namespace importance_test
}  // namespace tw::search
