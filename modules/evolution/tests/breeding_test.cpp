// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace breeding_test {

const Space& plane() {
  static const Space space{real("x", 0, 1), real("y", 0, 1), real("z", 0, 1), real("w", 0, 1)};
  return space;
}

/// Trial i has all genes and its loss equal to i/100.
Population steps(int64_t n) {
  Population population;
  for (int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(i) / 100;
    population.add({.trial = i, .values = {value, value, value, value}, .loss = value, .state = TrialState::complete});
  }
  return population;
}

std::vector<int64_t> trials(const std::vector<const Individual*>& parents) {
  std::vector<int64_t> of;
  for (const Individual* each : parents) of.push_back(each->trial);
  return of;
}

/// With eta 15, half of the children lie within 0.0215 of the parents' distance from either parent: |spread - 1| < 2^(1/16) - 1 = 0.0443, of half the
/// distance.
TEST(Breeding, SimulatedBinaryCrossoverStaysNearParents) {
  const Space space{real("x", 0, 10), integer("n", 0, 1000000)};
  const Individual a{.values = {4, 400000}}, b{.values = {6, 600000}};
  CounterRng random(5);
  const Population nobody;
  int crossed = 0, near = 0, lower = 0;
  constexpr int repeats = 20000;
  for (int i = 0; i < repeats; ++i) {
    Offspring offspring{space, nobody, random, {&a, &b}};
    simulated_binary_crossover(15)(offspring);
    ASSERT_TRUE(space.contains(offspring.child));
    const double x = offspring.child[0];
    if (x == 4) continue;
    ++crossed;
    lower += x < 5 ? 1 : 0;
    const double distance = std::min(std::abs(x - 4), std::abs(x - 6));
    near += distance < 2 * 0.5 * (std::pow(2, 1.0 / 16) - 1) ? 1 : 0;
  }
  EXPECT_NEAR(crossed, 10000, 430);  // binomial, deviation 71
  EXPECT_NEAR(lower, crossed / 2, 300);
  // The inner half of spreads: u in [1/4, 1/2] has spreads from 2^(-1/16), and u in [1/2, 3/4] up to 2^(1/16), within twice the required distance.
  EXPECT_NEAR(near, crossed / 2, 350);
}

TEST(Breeding, PolynomialMutationReachesTheLimitsAndTheNextValue) {
  const Space space{real("x", 0, 1), ordinal("k", {1, 2, 3}), categorical("c", {"a", "b"})};
  const Individual parent{.values = {0.25, 1, 0}};
  CounterRng random(6);
  const Population nobody;
  double least = 1, most = 0, moved = 0;
  int changed = 0, other = 0;
  constexpr int repeats = 4000;
  for (int i = 0; i < repeats; ++i) {
    Offspring offspring{space, nobody, random, {&parent}};
    polynomial_mutation(20, 3)(offspring);  // all three genes
    ASSERT_TRUE(space.contains(offspring.child));
    least = std::min(least, offspring.child[0]);
    most = std::max(most, offspring.child[0]);
    moved += std::abs(offspring.child[0] - 0.25) / repeats;
    changed += offspring.child[1] != 1 ? 1 : 0;
    other += offspring.child[2] == 1 ? 1 : 0;
  }
  // Without limits the mean of |delta| is 1 - 21/22 = 0.045; limits at a quarter reduce it by less than a hundredth.
  EXPECT_NEAR(moved, 0.045, 0.004);
  EXPECT_GT(least, 0);
  EXPECT_LT(most, 0.75);
  EXPECT_EQ(changed, repeats) << "an ordinal moves by one at least";
  EXPECT_NEAR(other, repeats / 2, 190);  // binomial, deviation 32
}

// As at the start of a search.
TEST(Breeding, MutationsWithoutParentsStartFromAUniformChild) {
  const Population nobody;
  CounterRng random(3);
  for (const Step& mutation : {point_mutation(), random_point_mutation(1, 2), normal_mutation(), multiscale_mutation(), polynomial_mutation(20, 0)}) {
    double mean = 0;
    constexpr int repeats = 1000;
    for (int i = 0; i < repeats; ++i) {
      Offspring offspring{plane(), nobody, random};
      mutation(offspring);
      ASSERT_TRUE(plane().contains(offspring.child));
      mean += offspring.child[3] / repeats;
    }
    EXPECT_NEAR(mean, 0.5, 6 * 0.29 / std::sqrt(repeats));
  }
}

TEST(Breeding, StepsThatCombineParentsDoNothingWithoutThem) {
  const Population nobody;
  CounterRng random(3);
  Offspring offspring{plane(), nobody, random};
  for (const Step& crossover :
       {uniform_crossover(), multiple_parent_crossover(), sigmoid_crossover(), simulated_binary_crossover(), differential_mutation()})
    crossover(offspring);
  EXPECT_TRUE(offspring.child.empty());
}

TEST(Breeding, Selects) {
  const Population population = steps(50);
  CounterRng random(1);
  Offspring offspring{plane(), population, random};
  best(10)(offspring);
  worst(3)(offspring);
  EXPECT_EQ(trials(offspring.parents), (std::vector<int64_t>{9, 8, 7}));
  best(1)(offspring);
  EXPECT_EQ(trials(offspring.parents), std::vector<int64_t>{7});
  std::vector<int> counts(50, 0);
  for (int i = 0; i < 5000; ++i) {
    Offspring other{plane(), population, random};
    any(10)(other);
    std::vector<int64_t> drawn = trials(other.parents);
    std::ranges::sort(drawn);
    ASSERT_EQ(std::ranges::unique(drawn).size(), 0U);
    for (const int64_t trial : drawn) ++counts[static_cast<size_t>(trial)];
  }
  // Binomial(5000, 0.2): 1000, deviation 28; six of them for 50 counts.
  for (const int count : counts) EXPECT_NEAR(count, 1000, 170);
}

/// The known wrong version prefers the worse gene.
TEST(Breeding, SigmoidCrossoverPrefersTheBetterParent) {
  const Population population = steps(100);
  CounterRng random(2);
  const Individual& good = *population.find(1);
  const Individual& bad = *population.find(91);  // 0.9 worse
  for (const bool good_first : {true, false}) {
    int from_good = 0;
    for (int i = 0; i < 5000; ++i) {
      Offspring offspring{plane(), population, random, good_first ? std::vector{&good, &bad} : std::vector{&bad, &good}};
      sigmoid_crossover(0.5)(offspring);
      for (const double gene : offspring.child) from_good += gene == good.values[0] ? 1 : 0;
    }
    const double expected = 1 / (1 + std::exp(-0.9 / 0.5));  // 0.858; over 20000, deviation 0.0025
    EXPECT_NEAR(from_good / 20000.0, expected, 0.015);
  }
}

TEST(Breeding, CrossesGeneByGene) {
  const Population population = steps(100);
  CounterRng random(2);
  int second = 0;
  for (int i = 0; i < 5000; ++i) {
    Offspring offspring{plane(), population, random, {population.find(1), population.find(2)}};
    uniform_crossover(0.25)(offspring);
    for (const double gene : offspring.child) second += gene == 0.02 ? 1 : 0;
  }
  EXPECT_NEAR(second / 20000.0, 0.25, 0.02);  // deviation 0.003
  std::vector<int> counts(3, 0);
  for (int i = 0; i < 5000; ++i) {
    Offspring offspring{plane(), population, random, {population.find(0), population.find(1), population.find(2)}};
    multiple_parent_crossover()(offspring);
    for (const double gene : offspring.child) ++counts[static_cast<size_t>(std::lround(gene * 100))];
  }
  for (const int count : counts) EXPECT_NEAR(count / 20000.0, 1 / 3.0, 0.02);
}

TEST(Breeding, MutatesAsManyGenesAsAsked) {
  const Population population = steps(100);
  CounterRng random(4);
  for (size_t n = 1; n <= 4; ++n) {
    Offspring offspring{plane(), population, random, {population.find(50)}};
    point_mutation(n)(offspring);
    EXPECT_EQ(std::ranges::count(offspring.child, 0.5), 4 - static_cast<int64_t>(n));
  }
  double sum = 0;
  double squares = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    Offspring offspring{plane(), population, random, {population.find(50)}};
    normal_mutation(0.05)(offspring);
    double moved = 0;
    for (const double gene : offspring.child) moved += gene - 0.5;
    sum += moved;
    squares += moved * moved;
  }
  EXPECT_NEAR(sum / draws, 0, 6 * 0.05 / std::sqrt(draws));
  EXPECT_NEAR(std::sqrt(squares / draws), 0.05, 6 * 0.05 / std::sqrt(2.0 * draws));
}

TEST(Breeding, MutatesEachNumberOfGenesAlike) {
  const Population population = steps(100);
  CounterRng random(7);
  std::vector<int> counts(5, 0);
  for (int i = 0; i < 6000; ++i) {
    Offspring offspring{plane(), population, random, {population.find(50)}};
    random_point_mutation(1, 3)(offspring);
    ++counts[4 - static_cast<size_t>(std::ranges::count(offspring.child, 0.5))];
  }
  EXPECT_EQ(counts[0] + counts[4], 0);
  for (size_t n = 1; n <= 3; ++n) EXPECT_NEAR(counts[n], 2000, 6 * std::sqrt(6000 / 3.0 * 2 / 3));
}

// Of 4 genes, one changes for certain, and each other one with probability 1/4: 1.75 on average, deviation sqrt(3 * 3/16). Scales go from 0.2 to
// 2e-5, each decade equally likely.
TEST(Breeding, MovesGenesAtAnyScale) {
  Population population;
  population.add({.trial = 0, .values = {0.5, 0.5, 0.5, 0.5}, .loss = 1, .state = TrialState::complete});
  const Space space{real("a", 0, 1), real("b", 0, 1), real("c", 0, 1), real("d", 0, 1)};
  CounterRng random(9);
  double moved = 0;
  double small = 0;
  for (int i = 0; i < 4000; ++i) {
    Offspring offspring{space, population, random, {population.find(0)}};
    multiscale_mutation()(offspring);
    const auto is_moved = [](double x) { return x != 0.5; };
    moved += static_cast<double>(std::ranges::count_if(offspring.child, is_moved)) / 4000;
    double farthest = 0;
    for (const double x : offspring.child) farthest = std::max(farthest, std::abs(x - 0.5));
    small += farthest < 2e-3 ? 1.0 / 4000 : 0;
  }
  EXPECT_NEAR(moved, 1.75, 5 * std::sqrt(9.0 / 16 / 4000));
  EXPECT_NEAR(small, 0.5, 0.1) << "two of the four decades lie below, but for tails";
}

TEST(Breeding, MovesByWhatParentsLieApart) {
  const Space space{real("x", 0, 1), real("y", 1e-4, 1, log_scale), categorical("c", {"a", "b"}), real("m", 0, 1).when("c", {"a"})};
  Population population;
  population.add({.trial = 0, .values = {0.5, 1e-2, 1, NAN}, .loss = 1, .state = TrialState::complete});
  population.add({.trial = 1, .values = {0.9, 1e-1, 0, 0.5}, .loss = 1, .state = TrialState::complete});
  population.add({.trial = 2, .values = {0.7, 1e-2, 1, NAN}, .loss = 1, .state = TrialState::complete});
  CounterRng random(10);
  double mean = 0;
  for (int i = 0; i < 1000; ++i) {
    Offspring offspring{space, population, random, {population.find(0), population.find(0), population.find(1), population.find(2)}};
    differential_mutation()(offspring);
    const double u = (offspring.child[0] - 0.5) / 0.2;
    mean += u / 1000;
    EXPECT_NEAR(std::log10(offspring.child[1]), -2 + u, 1e-9) << "0.25 u of four decades";
    EXPECT_EQ(offspring.child[2], 1);
    EXPECT_TRUE(std::isnan(offspring.child[3]));
  }
  EXPECT_NEAR(mean, 0.5, 5 * 0.29 / std::sqrt(1000));
  Offspring two{space, population, random, {population.find(0), population.find(1)}};
  differential_mutation()(two);
  EXPECT_TRUE(two.child.empty()) << "there are no two others";
}

/// Not the middle of the range, which repair would insert.
TEST(Breeding, DrawsWhatNoParentHas) {
  const Space space{categorical("a", {"x", "y"}), real("m", 0, 1).when("a", {"x"})};
  Population population;
  population.add({.trial = 0, .values = {1, NAN}, .loss = 1, .state = TrialState::complete});
  Breeder breeder(space, in_turn({best(1), [](Offspring& offspring) { offspring.child = {0, NAN}; }}));
  CounterRng random(8);
  double mean = 0;
  double square = 0;
  for (int i = 0; i < 3000; ++i) {
    const double m = breeder.ask(population, random).values[1];
    mean += m / 3000;
    square += m * m / 3000;
  }
  // Uniform: mean 1/2 with deviation 0.29 / sqrt(3000), mean square 1/3 with deviation 0.3 / sqrt(3000).
  EXPECT_NEAR(mean, 0.5, 6 * 0.29 / std::sqrt(3000));
  EXPECT_NEAR(square, 1 / 3.0, 6 * 0.3 / std::sqrt(3000));
}

TEST(Breeding, StaysWithinLimits) {
  const Space space{real("lr", 1e-4, 1e-1, log_scale), integer("n", 1, 3), categorical("a", {"x", "y"}), real("m", 0, 1).when("a", {"x"})};
  CounterRng random(5);
  Population population;
  Breeder breeder(space, with_population(2, in_turn({any(2), uniform_crossover(), normal_mutation(2, 4)}), uniform_child()));
  for (int64_t trial = 0; trial < 500; ++trial) {
    const Proposal proposal = breeder.ask(population, random);
    ASSERT_TRUE(space.contains(proposal.values));
    population.add({.trial = trial, .values = proposal.values, .loss = uniform(random), .state = TrialState::complete});
  }
}

TEST(Breeding, TriesToMeetConstraints) {
  Space space{real("x", 0, 1), real("y", 0, 1)};
  space.require("x below y", [](const Configuration& c) { return c.real("x") < c.real("y"); });
  CounterRng random(6);
  Breeder breeder(space);
  int violated = 0;
  for (int i = 0; i < 1000; ++i) violated += space.violated(breeder.ask({}, random).values).empty() ? 0 : 1;
  EXPECT_LE(violated, 10);  // each of ten attempts fails with probability 1/2: 1 in 1024; deviation 1
}

/// For every seed. The best of 3000 uniform draws has a loss of about 2.1: one draw is expected within that radius, pi^2 8/15 r^5 = 10^5 / 3000.
TEST(Breeding, TheDefaultFindsTheMinimumOfASphere) {
  const Space space{real("a", -5, 5), real("b", -5, 5), real("c", -5, 5), real("d", -5, 5), real("e", -5, 5)};
  const auto best_of = [&](Step step, uint64_t seed) {
    Population population;
    Breeder breeder(space, std::move(step));
    for (int64_t trial = 0; trial < 3000; ++trial) {
      CounterRng random(seed, static_cast<uint64_t>(trial));
      const Proposal proposal = breeder.ask(population, random);
      double loss = 0;
      for (const double x : proposal.values) loss += x * x;
      population.add({.trial = trial, .values = proposal.values, .loss = loss, .state = TrialState::complete});
    }
    return population.best()->loss;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_LT(best_of(genetic(), seed), 1e-3) << seed;       // 0.02 if one gene moves by 0.05 of its range
    EXPECT_GT(best_of(uniform_child(), seed), 0.1) << seed;  // smaller with probability 5e-4
  }
}

}  // namespace breeding_test
}  // namespace tw::search
