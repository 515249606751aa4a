// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tw/base/error.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/l_shade.hpp>

#include "minimize.hpp"
#include "success_history.hpp"

namespace tw::search {
namespace l_shade_test {

const Population nobody;

double best_of(const std::vector<double>& losses) { return *std::ranges::min_element(losses); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

TEST(LShade, LehmerMeanByHand) {
  // (1 0.04 + 3 0.64) / (1 0.2 + 3 0.8).
  EXPECT_NEAR(lehmer_mean({0.2, 0.8}, {1, 3}), 1.96 / 2.6, 1e-15);
  EXPECT_NEAR(lehmer_mean({0.2, 0.8}, {1e300, 3e300}), 1.96 / 2.6, 1e-15);
  EXPECT_EQ(lehmer_mean({0, 0}, {1, 3}), 0);
}

TEST(LShade, PopulationsShrinkLinearly) {
  EXPECT_EQ(reduced_size(180, 4, 0, 1000), 180U);
  EXPECT_EQ(reduced_size(180, 4, 500, 1000), 92U);
  EXPECT_EQ(reduced_size(180, 4, 1, 1000), 180U);  // 179.8
  EXPECT_EQ(reduced_size(180, 4, 3, 1000), 179U);  // 179.5 less 0.03
  EXPECT_EQ(reduced_size(180, 4, 1000, 1000), 4U);
  EXPECT_EQ(reduced_size(180, 4, 2000, 1000), 4U);
}

TEST(LShade, TheHistoryHoldsMeansOfSuccessesInTurn) {
  SuccessHistory history(2);
  history.update();
  EXPECT_EQ(history.entries()[0].factor, 0.5);  // nothing has succeeded
  history.succeed({0.2, 0.9}, 1);
  history.succeed({0.8, 0.3}, 3);
  history.update();
  EXPECT_NEAR(history.entries()[0].factor, 1.96 / 2.6, 1e-15);
  EXPECT_NEAR(history.entries()[0].crossover, (0.81 + 0.27) / (0.9 + 0.9), 1e-15);
  EXPECT_EQ(history.entries()[1].factor, 0.5);
  history.succeed({0.4, 0}, 1);
  history.update();
  EXPECT_NEAR(history.entries()[1].factor, 0.4, 1e-15);
  EXPECT_LT(history.entries()[1].crossover, 0);
  for (int i = 0; i < 2; ++i) {
    history.succeed({0.6, 0.7}, 1);
    history.update();
  }
  EXPECT_NEAR(history.entries()[0].crossover, 0.7, 1e-15);
  EXPECT_LT(history.entries()[1].crossover, 0);  // for ever
}

TEST(LShade, DrawsAreCauchyAndNormalAroundTheHistory) {
  const SuccessHistory history(1);
  std::vector<double> factors;
  std::vector<double> crossovers;
  for (uint64_t i = 0; i < 4001; ++i) {
    CounterRng random(1, i);
    const auto drawn = history.draw(random);
    EXPECT_GT(drawn.factor, 0);
    EXPECT_LE(drawn.factor, 1);
    factors.push_back(drawn.factor);
    crossovers.push_back(drawn.crossover);
  }
  // Quartiles of Cauchy(0.5, 0.1) above 0, below which 0.06283 of it are; errors of those of 4001 draws are about 0.003.
  const auto quantile = [](double q) { return 0.5 + 0.1 * std::tan(M_PI * (0.06283 + 0.93717 * q - 0.5)); };
  EXPECT_NEAR(median(factors), quantile(0.5), 0.015);
  std::ranges::sort(factors);
  EXPECT_NEAR(factors[1000], quantile(0.25), 0.015);
  EXPECT_NEAR(factors[3000], quantile(0.75), 0.015);
  std::ranges::sort(crossovers);
  EXPECT_NEAR(crossovers[2000], 0.5, 0.01);
  EXPECT_NEAR(crossovers[3364], 0.6, 0.01);  // one deviation above: 84.1 %
}

TEST(LShade, Converges) {
  struct Case {
    const char* name;
    size_t dimensions;
    size_t in_flight;
    int64_t evaluations;
  };
  for (const Case& c : {Case{"sphere", 5, 1, 3000}, Case{"rosenbrock", 5, 1, 10000}, Case{"rastrigin", 5, 1, 10000}, Case{"sphere", 10, 16, 10000}}) {
    const TestFunction function = test_function(c.name, c.dimensions);
    const Space space = function.space();
    std::vector<double> found;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      LShade propagator(space, {.evaluations = c.evaluations});
      found.push_back(best_of(losses_of(propagator, function, c.evaluations, c.in_flight, seed)));
    }
    EXPECT_LT(median(found), 1e-8) << c.name << ' ' << c.dimensions << ", " << c.in_flight << " in flight";
  }
}

TEST(LShade, IsATenthOfRandomSearch) {
  const TestFunction function = test_function("griewank", 10);
  const Space space = function.space();
  std::vector<double> evolved;
  std::vector<double> random;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    LShade propagator(space, {.evaluations = 1000});
    Breeder uniform(space, uniform_child());
    evolved.push_back(best_of(losses_of(propagator, function, 1000, 1, seed)));
    random.push_back(best_of(losses_of(uniform, function, 1000, 1, seed)));
  }
  EXPECT_LT(median(evolved), median(random) / 10);
}

TEST(LShade, MembersGrowToTheFirstSizeAndShrinkWithWhatWasTold) {
  const TestFunction function = test_function("sphere", 3);
  const Space space = function.space();
  LShade propagator(space, {.population = 20, .evaluations = 200});
  losses_of(propagator, function, 10);
  EXPECT_EQ(propagator.members(), 10U);
  for (int64_t i = 10; i < 100; ++i) {
    CounterRng random(1, static_cast<uint64_t>(i));
    const Proposal proposal = propagator.ask(nobody, random);
    propagator.tell(evaluated(proposal, function.value(proposal.values), i));
  }
  EXPECT_EQ(propagator.members(), 12U);  // 20 - 16 / 2
  LShade endless(space, {.population = 20});
  losses_of(endless, function, 500);
  EXPECT_EQ(endless.members(), 20U);
}

TEST(LShade, OthersAreMembersIfBetterThanTheWorst) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  LShade propagator(space, {.population = 4});
  CounterRng random(1);
  for (int i = 0; i < 4; ++i) propagator.tell(evaluated(propagator.ask(nobody, random), 1.0 + i));
  for (int i = 0; i < 4; ++i) propagator.tell(evaluated({.values = {0.25, 0.25}}, 0));
  EXPECT_EQ(propagator.members(), 4U);
  // All members are at one place, and none is in the archive: differences are 0.
  EXPECT_EQ(propagator.ask(nobody, random).values, (std::vector<double>{0.25, 0.25}));
  propagator.tell(evaluated({.values = {0.75, 0.75}}, 1));  // not better
  EXPECT_EQ(propagator.ask(nobody, random).values, (std::vector<double>{0.25, 0.25}));
}

TEST(LShade, WhatLeavesTheCubeIsHalfWayToTheBound) {
  // So that bounds are approached, and never reached.
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  LShade propagator(space, {.population = 8});
  for (uint64_t i = 0; i < 200; ++i) {
    CounterRng random(1, i);
    const Proposal proposal = propagator.ask(nobody, random);
    for (const double x : proposal.values) EXPECT_TRUE(x > 0 && x < 1);
    propagator.tell(evaluated(proposal, proposal.values[0] - proposal.values[1]));
  }
}

TEST(LShade, StaysInsideAndLivesWithFailuresAndChoices) {
  std::vector<Parameter> parameters{real("x", 0, 1), categorical("a", {"p", "q", "r"}), integer("n", 1, 5)};
  for (int i = 0; i < 10; ++i) {
    const std::string above = i == 0 ? "a" : "c" + std::to_string(i - 1);
    parameters.push_back(categorical("c" + std::to_string(i), {"p", "q"}).when(above, {"q"}));
  }
  const Space space(parameters);
  LShade propagator(space, {.population = 12, .evaluations = 600});
  double best = 1e300;
  for (uint64_t i = 0; i < 600; ++i) {
    CounterRng random(1, i);
    const Proposal proposal = propagator.ask(nobody, random);
    ASSERT_TRUE(space.contains(proposal.values));
    const double loss = std::abs(proposal.values[0]) + (proposal.values[1] == 2 ? 0 : 1) + std::abs(proposal.values[2] - 5);
    if (i % 5 != 0) best = std::min(best, loss);
    propagator.tell(i % 5 == 0 ? failed(proposal) : evaluated(proposal, loss));
  }
  EXPECT_LT(best, 1e-3);  // the minimum, at the bounds
  LShade hopeless(space, {});
  for (uint64_t i = 0; i < 300; ++i) {
    CounterRng random(1, i);
    hopeless.tell(failed(hopeless.ask(nobody, random)));
  }
  EXPECT_EQ(hopeless.members(), 0U);
  const Space point{integer("only", 3, 3)};
  LShade alone(point, {});
  for (uint64_t i = 0; i < 100; ++i) {
    CounterRng random(1, i);
    alone.tell(evaluated(alone.ask(nobody, random), 1.0));
  }
}

TEST(LShade, TheSameIsProposedAgain) {
  const TestFunction function = test_function("rastrigin", 4);
  const Space space = function.space();
  const auto run = [&](uint64_t seed) {
    LShade propagator(space, {.evaluations = 500});
    return losses_of(propagator, function, 500, 3, seed);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(LShade, RefusesWrongOptions) {
  const Space space{real("x", 0, 1)};
  for (const LShadeOptions& wrong :
       std::vector<LShadeOptions>{{.population = 3}, {.evaluations = -1}, {.memory = 0}, {.greediness = 0}, {.archive = -1}}) {
    EXPECT_THROW(LShade(space, wrong), ContractError);
  }
}

}  // namespace l_shade_test
}  // namespace tw::search
