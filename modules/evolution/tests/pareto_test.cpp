// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tw/base/random.hpp>
#include <tw/evolution/pareto.hpp>

namespace tw::search {
namespace pareto_test {

constexpr double infinity = std::numeric_limits<double>::infinity();

Individual of(int64_t trial, std::vector<double> objectives, double violation = 0) {
  return {.trial = trial,
          .loss = objectives[0],
          .objectives = objectives.size() > 1 ? objectives : std::vector<double>(),
          .violation = violation,
          .state = violation > 0 ? TrialState::infeasible : TrialState::complete};
}

/// Few distinct values, so that many are equal.
std::vector<Individual> random_individuals(int64_t n, size_t objectives, CounterRng& random) {
  std::vector<Individual> all;
  for (int64_t trial = 0; trial < n; ++trial) {
    std::vector<double> values;
    for (size_t i = 0; i < objectives; ++i) values.push_back(random.below(12));
    all.push_back(of(trial, values, random.below(4) == 0 ? random.below(3) : 0));
  }
  return all;
}

TEST(Pareto, DominatesWhoIsNowhereWorseAndSomewhereBetter) {
  EXPECT_TRUE(dominates(std::vector{1.0, 2.0}, std::vector{1.0, 3.0}));
  EXPECT_FALSE(dominates(std::vector{1.0, 2.0}, std::vector{1.0, 2.0}));
  EXPECT_FALSE(dominates(std::vector{1.0, 2.0}, std::vector{2.0, 1.0}));
  EXPECT_TRUE(dominates(of(0, {1}), of(1, {2})));
  EXPECT_TRUE(dominates(of(0, {9, 9}), of(1, {1, 1}, 0.5))) << "what is allowed comes before what is not";
  EXPECT_TRUE(dominates(of(0, {9, 9}, 0.25), of(1, {1, 1}, 0.5)));
  EXPECT_FALSE(dominates(of(0, {1, 1}, 0.5), of(1, {9, 9}, 0.5))) << "of two that are not, violation alone decides";
}

/// Compares with peeling off one front after the other.
TEST(Pareto, FrontsAreWhatPeelingGives) {
  CounterRng random(1);
  for (const size_t objectives : {1, 2, 3, 5}) {
    const std::vector<Individual> all = random_individuals(120, objectives, random);
    std::vector<const Individual*> pointers;
    for (const Individual& each : all) pointers.push_back(&each);
    const std::vector<size_t> numbers = front_numbers(pointers);
    std::set<size_t> left;
    for (size_t i = 0; i < all.size(); ++i) left.insert(i);
    for (size_t front = 0; !left.empty(); ++front) {
      std::vector<size_t> peeled;
      for (const size_t i : left) {
        if (std::ranges::none_of(left, [&](size_t k) { return dominates(all[k], all[i]); })) peeled.push_back(i);
      }
      for (const size_t i : peeled) {
        EXPECT_EQ(numbers[i], front) << objectives << " objectives";
        left.erase(i);
      }
    }
  }
  EXPECT_TRUE(front_numbers({}).empty());
}

TEST(Pareto, CrowdingIsTheDistanceOfNeighbours) {
  const std::vector<std::vector<double>> values{{0, 8}, {1, 6}, {3, 4}, {10, 0}};
  const std::vector<ObjectiveView> points(values.begin(), values.end());
  // (3 - 0) / 10 + (8 - 4) / 8 and (10 - 1) / 10 + (6 - 0) / 8.
  const std::vector<double> distances = crowding_distances(points);
  EXPECT_EQ(distances[0], infinity);
  EXPECT_NEAR(distances[1], 0.8, 1e-15);
  EXPECT_NEAR(distances[2], 1.65, 1e-15);
  EXPECT_EQ(distances[3], infinity);
  const std::vector<ObjectiveView> equal(5, values[0]);
  EXPECT_EQ(std::ranges::count(crowding_distances(equal), 0), 3) << "no range, no distance, and no NaN";
  const std::vector<std::vector<double>> endless{{0, infinity}, {1, infinity}, {2, infinity}};
  EXPECT_EQ(crowding_distances(std::vector<ObjectiveView>(endless.begin(), endless.end()))[1], 1);
  EXPECT_TRUE(crowding_distances({}).empty());
}

TEST(Pareto, TheFrontIsOfThoseThatCount) {
  CounterRng random(2);
  for (const size_t objectives : {1, 2, 4}) {
    std::vector<Individual> all = random_individuals(200, objectives, random);
    all[0].state = TrialState::failed;
    std::vector<std::vector<double>> expected;
    for (const Individual& each : all) {
      const auto beats = [&](const Individual& other) { return other.has_comparable_loss() && dominates(other, each); };
      if (each.has_comparable_loss() && std::ranges::none_of(all, beats))
        expected.emplace_back(each.all_objectives().begin(), each.all_objectives().end());
    }
    std::ranges::sort(expected);
    expected.erase(std::ranges::unique(expected).begin(), expected.end());
    const std::vector<const Individual*> front = front_of(all);
    ASSERT_EQ(front.size(), expected.size());
    for (size_t i = 0; i < front.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(front[i]->all_objectives(), expected[i]));
      const auto equal = [&](const Individual& other) {
        return other.has_comparable_loss() && std::ranges::equal(other.all_objectives(), expected[i]);
      };
      EXPECT_EQ(front[i]->trial, std::ranges::find_if(all, equal)->trial);
    }
  }
  EXPECT_TRUE(front_of(std::vector{of(0, {1, 1}, 2)}).empty()) << "what violates is on no front";
}

}  // namespace pareto_test
}  // namespace tw::search
