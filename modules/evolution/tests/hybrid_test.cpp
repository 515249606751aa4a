// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tw/evolution/hybrid.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace hybrid_test {

double least_of(const std::vector<double>& losses) { return *std::ranges::min_element(losses); }

const Space& square() {
  static const Space space{real("x", -1, 1), real("y", -1, 1)};
  return space;
}

double loss_of(const std::vector<double>& values) { return (values[0] - 0.3) * (values[0] - 0.3) + values[1] * (values[1] + 0.1 * values[0]); }

/// Shares of proposals from the region, CMA-ES and the breeder.
std::array<double, 3> shares_of(int64_t first, int64_t last) {
  Hybrid hybrid(square(), 1);
  Population population;
  std::array<double, 3> counts{};
  for (int64_t trial = 0; trial < last; ++trial) {
    CounterRng random(2, static_cast<uint64_t>(trial));
    const Proposal proposal = hybrid.ask(population, random);
    EXPECT_TRUE(square().contains(proposal.values));
    if (trial >= first) counts[proposal.tag.run < -1 ? 0 : proposal.tag.run >= 0 ? 1 : 2] += 1 / static_cast<double>(last - first);
    const Individual individual = evaluated(proposal, loss_of(proposal.values), trial);
    population.add(individual);
    hybrid.tell(individual);
  }
  return counts;
}

// Tolerances are four deviations for this number of draws.
TEST(Hybrid, PassesOnFromRegionToCovariancesToBreeding) {
  const auto early = shares_of(0, 300);
  EXPECT_NEAR(early[0], 0.95, 0.05);
  EXPECT_EQ(early[2], 0);
  const auto middle = shares_of(300, 2000);
  EXPECT_NEAR(middle[0], 0.1, 0.03);
  EXPECT_EQ(middle[2], 0);
  const auto late = shares_of(2000, 4000);
  EXPECT_NEAR(late[0], 0.1, 0.03);
  EXPECT_NEAR(late[2], 0.9 * 0.75, 0.045);
}

// CMA-ES begins at the best trial: its first samples lie around it, within 5 of its deviations.
TEST(Hybrid, BeginsCovariancesAtTheBest) {
  Hybrid hybrid(square(), 1);
  Population population;
  population.add({.trial = 1000, .values = {-0.7, 0.6}, .loss = -1, .state = TrialState::complete});
  int found = 0;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    CounterRng random(3, trial);
    const Proposal proposal = hybrid.ask(population, random);
    if (proposal.tag.run < 0) continue;
    ++found;
    EXPECT_NEAR(proposal.values[0], -0.7, 1);
    EXPECT_NEAR(proposal.values[1], 0.6, 1);
  }
  EXPECT_GE(found, 5);
}

TEST(Hybrid, ProposesTheSameForTheSame) {
  const TestFunction function = test_function("rosenbrock", 2);
  const Space space = function.space();
  Hybrid a(space, 4);
  Hybrid b(space, 4);
  EXPECT_EQ(losses_of(a, function, 2500, 4), losses_of(b, function, 2500, 4));
}

TEST(Hybrid, IsQuickAndComesThrough) {
  const TestFunction rosenbrock = shifted(test_function("rosenbrock", 2), {0.2, 0.1});
  const Space space = rosenbrock.space();
  Hybrid few(space, 1);
  EXPECT_LE(least_of(losses_of(few, rosenbrock, 150)), 1e-6);
  const TestFunction rastrigin = shifted(test_function("rastrigin", 2), {0.9, -1.3});
  const Space wide = rastrigin.space();
  Hybrid many(wide, 1);
  EXPECT_LE(least_of(losses_of(many, rastrigin, 4000)), 1e-6);
}

}  // namespace hybrid_test
}  // namespace tw::search
