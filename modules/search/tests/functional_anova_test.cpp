// SPDX-License-Identifier: Apache-2.0
// Forests, and the decomposition of their variance, on functions whose own is known.
#include "functional_anova.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <functional>
#include <numbers>

#include "ledgers.hpp"
#include "loss_forest.hpp"

namespace tw::search {
namespace functional_anova_test {

using namespace testing;

Samples samples_of(size_t count, size_t dimensions, const std::function<double(const std::vector<double>&)>& function) {
  Samples samples;
  CounterRng random(3, 0);
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> x;
    for (size_t k = 0; k < dimensions; ++k) x.push_back((random.below(1 << 20) + 0.5) / (1 << 20));
    samples.responses.push_back(function(x));
    samples.positions.push_back(std::move(x));
  }
  return samples;
}

double share_of(const VarianceShares& shares, size_t a, size_t b) {
  for (const PairShare& pair : shares.pairs) {
    if (pair.first == a && pair.second == b) return pair.share;
  }
  return -1;
}

/// A tree of 0 below 0.3 and 1 above: its mean is 0.7, its variance 0.21, all of it of the first coordinate; and every number of it is exact.
TEST(RegressionTree, CutsWhereTheStepIs) {
  const Samples samples = samples_of(400, 2, [](const auto& x) { return x[0] < 0.3 ? 0 : 1; });
  const RandomForest forest(samples, 1);
  for (const RegressionTree& tree : forest.trees()) {
    ASSERT_EQ(tree.leaves().size(), 2U);
    EXPECT_NEAR(tree.leaves()[0].volume, 0.3, 0.02);  // 400 samples are 0.0025 apart, and a tree has 63 % of them: a gap of 0.02 is eight
    EXPECT_EQ(tree.leaves()[0].value, 0);
    EXPECT_EQ(tree.at({0.9, 0.1}), 1);
  }
  EXPECT_NEAR(Marginal(forest, 0).variance(), 0.21, 0.01);
  EXPECT_EQ(Marginal(forest, 0).at(0.1), 0);
  EXPECT_NEAR(Marginal(forest, 1).at(0.1), 0.7, 0.02);
  EXPECT_NEAR(Marginal(forest, 0, 1).at(0.9, 0.1), 1, 1e-12);
}

TEST(RegressionTree, LeavesFillTheCube) {
  const RandomForest forest(samples_of(300, 4, [](const auto& x) { return std::sin(9 * x[0]) * x[1] + x[2]; }), 1);
  for (const RegressionTree& tree : forest.trees()) {
    double volume = 0;
    for (const Leaf& leaf : tree.leaves()) {
      double product = 1;
      for (const Interval& side : leaf.box) product *= side.length();
      EXPECT_NEAR(leaf.volume, product, 1e-12);
      volume += leaf.volume;
    }
    EXPECT_NEAR(volume, 1, 1e-12);
  }
}

TEST(RandomForest, IsTheSameAgainAndKnowsWhatItForetells) {
  const auto sum = [](const auto& x) { return x[0] + 2 * x[1]; };
  const RandomForest forest(samples_of(300, 2, sum), 1);
  const RandomForest again(samples_of(300, 2, sum), 1);
  const RandomForest other(samples_of(300, 2, sum), 2);
  EXPECT_EQ(forest.at({0.3, 0.4}), again.at({0.3, 0.4}));
  EXPECT_NE(forest.at({0.3, 0.4}), other.at({0.3, 0.4}));
  EXPECT_GT(forest.explained(), 0.95);
  CounterRng random(4, 0);
  const RandomForest of_noise(samples_of(300, 2, [&](const auto&) { return random.below(1000); }), 1);
  EXPECT_LT(of_noise.explained(), 0.1);  // -0.24; of samples that its trees have seen it foretells 0.63
}

// A forest of 1000 samples rounds a function off, which takes from what varies fast: of Ishigami's, the second share, 0.442, comes out as 0.333 to
// 0.402 at seeds 1 to 8 of the samples, and the two others are off by 0.037 at most. At the seed of these tests, where all is determined, they are
// off by 0.056 at most; with a wrong formula, or a wrong choice of cuts, by 0.105 or more.
constexpr double rounded_off = 0.08;

TEST(FunctionalAnova, OfASum) {
  const VarianceShares shares = functional_anova(RandomForest(samples_of(1000, 3, [](const auto& x) { return x[0] + 2 * x[1]; }), 1));
  EXPECT_NEAR(shares.alone[0], 0.2, 0.03);
  EXPECT_NEAR(shares.alone[1], 0.8, 0.03);
  EXPECT_LT(shares.alone[2], 0.01);
  EXPECT_LT(shares.pairs.front().share, 0.02);
}

/// All of it lies between the two.
TEST(FunctionalAnova, OfAProduct) {
  const VarianceShares shares = functional_anova(RandomForest(samples_of(1000, 3, [](const auto& x) { return (x[0] - 0.5) * (x[1] - 0.5); }), 1));
  for (const double alone : shares.alone) EXPECT_LT(alone, 0.03);
  EXPECT_EQ(shares.pairs.front().first, 0U);
  EXPECT_EQ(shares.pairs.front().second, 1U);
  EXPECT_GT(shares.pairs.front().share, 0.9);
  EXPECT_LT(share_of(shares, 1, 2), 0.02);
}

/// sin a + 7 sin^2 b + 0.1 c^4 sin a, each from -pi to pi. Ref: Ishigami & Homma 1990.
TEST(FunctionalAnova, OfIshigamisFunction) {
  const auto angle = [](double x) { return std::numbers::pi * (2 * x - 1); };
  const auto ishigami = [&](const std::vector<double>& x) {
    return std::sin(angle(x[0])) * (1 + 0.1 * std::pow(angle(x[2]), 4)) + 7 * std::pow(std::sin(angle(x[1])), 2);
  };
  const VarianceShares shares = functional_anova(RandomForest(samples_of(1000, 3, ishigami), 1));
  EXPECT_NEAR(shares.alone[0], 0.314, rounded_off);
  EXPECT_NEAR(shares.alone[1], 0.442, rounded_off);
  EXPECT_NEAR(shares.alone[2], 0, 0.03);
  EXPECT_NEAR(share_of(shares, 0, 2), 0.244, rounded_off);
  EXPECT_NEAR(share_of(shares, 0, 1), 0, 0.03);
}

TEST(LossForest, NeedsTrialsThatDiffer) {
  const auto ranked_of = [](const Ledger& ledger) {
    std::vector<const LedgerEntry*> ranked;
    for (const LedgerEntry& entry : ledger.trials) ranked.push_back(&entry);
    std::ranges::sort(ranked, {}, [](const LedgerEntry* entry) { return entry->individual.loss; });
    return ranked;
  };
  const Ledger few = long_ledger(19, [](const auto& x) { return x[0]; }, 3);
  const Ledger alike = long_ledger(100, [](const auto&) { return 1; }, 3);
  EXPECT_FALSE(loss_forest_of(ranked_of(few), unit_cube));
  EXPECT_FALSE(loss_forest_of(ranked_of(alike), unit_cube));
}

/// Of nine choices, three that are not neighbours are good; under one of two methods a rate matters, which does not exist under the other.
/// Good ones have the ranks from 0 to 1/3, others those up to 1. In each group, of width w = 1/3 or 2/3, plain trials are in the middle, and others
/// are off by w d, d uniform in [-1/2, -1/4] and [1/4, 1/2], so that d^2 has the mean 7/48. V(choice) = 1/3 2/3 (1/2)^2 = 1/18; V(rate) = V(method,
/// rate) = (E w)^2 7/48 / 4 = (5/9)^2 7/192, V(choice, rate) = V(all) = Var w 7/192 = 2/81 7/192; V, their sum, is 0.0799.
TEST(LossForest, OfChoicesAndConditions) {
  const Space space{categorical("choice", {"a", "b", "c", "d", "e", "f", "g", "h", "i"}), categorical("method", {"plain", "fine"}),
                    real("rate", 0, 1).when("method", {"fine"})};
  Ledger ledger = long_ledger(900, [](const auto&) { return 0; }, 3);
  for (LedgerEntry& entry : ledger.trials) {
    std::vector<double>& values = entry.individual.values;
    values = {std::floor(9 * values[0]), std::floor(2 * values[1]), values[2]};
    if (values[1] == 0) values[2] = none;
    entry.individual.loss = (std::fmod(values[0], 4) == 0 ? 0 : 2) + (values[1] == 0 ? 0.5 : values[2]);
  }
  std::vector<const LedgerEntry*> ranked;
  for (const LedgerEntry& entry : ledger.trials) ranked.push_back(&entry);
  std::ranges::stable_sort(ranked, {}, [](const LedgerEntry* entry) { return entry->individual.loss; });
  const auto forest = loss_forest_of(ranked, space);
  ASSERT_TRUE(forest);
  for (const double good : {0, 4, 8}) EXPECT_LT(forest->cube.coordinate(0, good), 1.0 / 3);
  EXPECT_NEAR(forest->shares.alone[0], 0.696, rounded_off);
  EXPECT_NEAR(forest->shares.alone[1], 0, 0.02);
  EXPECT_NEAR(forest->shares.alone[2], 0.141, rounded_off);
  EXPECT_NEAR(share_of(forest->shares, 1, 2), 0.141, rounded_off);
  EXPECT_NEAR(share_of(forest->shares, 0, 1), 0, 0.02);
  EXPECT_NEAR(forest->forest.explained(), 1, 0.05);
  for (const RegressionTree& tree : forest->forest.trees()) {
    for (const Leaf& leaf : tree.leaves()) {
      EXPECT_TRUE(leaf.box[2].length() == 1 || leaf.box[1].length() < 1) << "cut across a rate where some have none";
    }
  }
}

/// As many samples as there ever are, of many dimensions: 0.25 s of processor time where it is optimised; 10 s leave room for sanitizers on a slow
/// machine.
TEST(LossForest, TakesLittle) {
  const Samples samples = samples_of(1000, 30, [](const auto& x) { return x[0] + x[1] * x[2]; });
  const std::clock_t begin = std::clock();
  functional_anova(RandomForest(samples, 1));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

}  // namespace functional_anova_test
}  // namespace tw::search
