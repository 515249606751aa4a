// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <tw/base/error.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/hypervolume.hpp>

#include "test_functions.hpp"

namespace tw::search {
namespace test_functions_test {

std::vector<double> random_point(const TestFunction& function, CounterRng& random) {
  std::vector<double> x;
  for (size_t i = 0; i < function.dimensions(); ++i) x.push_back(uniform(random, function.low[i], function.high[i]));
  return x;
}

TEST(TestFunctions, HaveTheirMinimumWhereTheySay) {
  CounterRng random(1);
  for (const TestFunction& function : test_functions()) {
    SCOPED_TRACE(function.name);
    EXPECT_NEAR(function.value(function.minimizer), function.minimum, 1e-10);
    EXPECT_TRUE(function.space().contains(function.minimizer));
    for (int i = 0; i < 20000; ++i) {
      std::vector<double> x = random_point(function, random);
      EXPECT_GE(function.value(x), function.minimum - 1e-12);
      // Also around the minimizer, at decreasing distances.
      const double share = std::pow(10, -6 * uniform(random));
      for (size_t k = 0; k < x.size(); ++k) x[k] = function.minimizer[k] + share * (x[k] - function.minimizer[k]);
      EXPECT_GE(function.value(x), function.minimum - 1e-10);
    }
  }
}

TEST(TestFunctions, KnownValues) {
  EXPECT_DOUBLE_EQ(test_function("sphere").value(std::vector{1.0, 2.0}), 5);
  EXPECT_DOUBLE_EQ(test_function("rosenbrock").value(std::vector{-1.2, 1.0}), 24.2);
  EXPECT_DOUBLE_EQ(test_function("step", 3).value(std::vector{-2.7, 1.7, 0.4}), -1);
  EXPECT_DOUBLE_EQ(test_function("quartic", 2).value(std::vector{1.0, 2.0}), 33);
  EXPECT_NEAR(test_function("rastrigin", 2).value(std::vector{0.5, 1.0}), 21.25, 1e-12);
  EXPECT_NEAR(test_function("himmelblau").value(std::vector{-2.805118, 3.131312}), 0, 1e-9);
  EXPECT_NEAR(test_function("eggcrate").value(std::vector{std::numbers::pi, 0.0}), 9.8696044, 1e-6);
  EXPECT_DOUBLE_EQ(test_function("leon").value(std::vector{2.0, 7.0}), 101);
  EXPECT_NEAR(test_function("ellipsoid", 3).value(std::vector{1.0, 1.0, 1.0}), 1001001, 1e-6);
  // The minimum of the wrong funnel is d n above that of the right one.
  const TestFunction two = test_function("bisphere");
  const double n = 30;
  const double other = -std::sqrt((2.5 * 2.5 - 1) / (1 - 1 / (2 * std::sqrt(n + 20) - 8.2)));
  EXPECT_DOUBLE_EQ(two.value(std::vector<double>(30, other)), 30);
  EXPECT_NEAR(test_function("birastrigin").value(std::vector<double>(30, -2.5)), two.value(std::vector<double>(30, -2.5)), 1e-9);
}

TEST(TestFunctions, RotationKeepsDistancesFromTheMinimizer) {
  CounterRng random(2);
  const TestFunction sphere = test_function("sphere", 12);
  const TestFunction same = rotated(sphere, 3);
  const TestFunction ellipsoid = test_function("ellipsoid", 12);
  const TestFunction other = rotated(ellipsoid, 3);
  EXPECT_EQ(other.value(ellipsoid.minimizer), 0);
  for (int i = 0; i < 100; ++i) {
    const std::vector<double> x = random_point(sphere, random);
    EXPECT_NEAR(same.value(x), sphere.value(x), 1e-12 * sphere.value(x));
    EXPECT_GT(std::abs(other.value(x) - ellipsoid.value(x)), 1);
  }
}

TEST(TestFunctions, ShiftMovesTheMinimizer) {
  const TestFunction function = shifted(test_function("sphere"), {5.12, -1});
  EXPECT_EQ(function.minimizer, (std::vector{-5.12, 1.0}));
  EXPECT_EQ(function.value(function.minimizer), 0);
  EXPECT_THROW(shifted(test_function("sphere"), {6, 0}), ContractError);
}

/// A point with x1 on the front lies on it; hypervolumes are sums over 20,000 of these.
TEST(TestFunctions, FrontsOfZdtHaveTheirVolumes) {
  for (const TestProblem& problem : zdt_problems()) {
    std::vector<std::vector<double>> front;
    for (int i = 0; i <= 20000; ++i) {
      std::vector<double> x(problem.dimensions, 0);
      x[0] = i / 20000.0;
      ASSERT_TRUE(problem.space().contains(x));
      front.push_back(problem.objectives(x));
      EXPECT_EQ(front.back()[0], x[0]);
      x[3] = 1;  // g = 1 + 9 / 29
      EXPECT_GT(problem.objectives(x)[1], front.back()[1]);
    }
    // A staircase of 20,000 steps lies below the curve by half the fall over a step's width, at most 1 / 40,000 times 2.
    const double volume = hypervolume(std::vector<ObjectiveView>(front.begin(), front.end()), std::vector{1.1, 1.1});
    EXPECT_NEAR(volume, problem.hypervolume, 1e-4) << problem.name;
    EXPECT_LT(volume, problem.hypervolume) << problem.name;
  }
}

TEST(TestFunctions, RefusesWhatThereIsNot) {
  EXPECT_THROW(test_function("spher"), ContractError);
  EXPECT_THROW(test_function("keane", 3), ContractError);
  EXPECT_THROW(test_function("rosenbrock", 1), ContractError);
}

}  // namespace test_functions_test
}  // namespace tw::search
