// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tw/base/error.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace quadratic_trust_region_test {

double least_of(const std::vector<double>& losses) { return *std::ranges::min_element(losses); }

double reached(const TestFunction& function, int64_t evaluations, size_t in_flight = 1, uint64_t seed = 1) {
  const Space space = function.space();
  QuadraticTrustRegion region(space, {}, seed);
  return least_of(losses_of(region, function, evaluations, in_flight, seed));
}

TestFunction off_centre(const std::string& name, size_t dimensions) {
  const TestFunction function = test_function(name, dimensions);
  std::vector<double> offset;
  for (size_t d = 0; d < dimensions; ++d) offset.push_back((0.05 + 0.02 * static_cast<double>(d)) * (function.high[d] - function.low[d]));
  return shifted(function, offset);
}

/// sum 10^(6 i / (n - 1)) y_i^2 in rotated axes.
TestFunction ellipsoid(size_t dimensions) {
  TestFunction function = test_function("sphere", dimensions);
  function.value = [dimensions](std::span<const double> x) {
    double sum = 0;
    for (size_t i = 0; i < dimensions; ++i) sum += std::pow(10, 6.0 * static_cast<double>(i) / static_cast<double>(dimensions - 1)) * x[i] * x[i];
    return sum;
  };
  function = rotated(function, 3);
  return shifted(function, std::vector<double>(dimensions, 0.7));
}

TEST(QuadraticTrustRegion, NeedsFewEvaluationsWhereLossesAreSmooth) {
  // 21 points in 5 dimensions determine a quadratic; its minimum is found once the region contains it.
  EXPECT_LE(reached(off_centre("sphere", 5), 60), 1e-8);
  EXPECT_LE(reached(off_centre("rosenbrock", 2), 150), 1e-8);
  EXPECT_LE(reached(ellipsoid(5), 250), 1e-8) << "condition 1e6: a region that stays a ball comes to 1e1";
}

TEST(QuadraticTrustRegion, UsesManyInFlight) {
  EXPECT_LE(reached(off_centre("sphere", 5), 300, 16), 1e-6);
  for (const size_t dimensions : {2, 3, 5}) {
    const auto evaluations = static_cast<int64_t>(70 * dimensions);
    EXPECT_LE(reached(ellipsoid(dimensions), evaluations, 16), 1e-8)
        << dimensions << ": radii by success come to 1e3 in 5, and a shape of each model to 1";
  }
  const Space space = test_function("sphere", 5).space();
  QuadraticTrustRegion region(space, {}, 1);
  std::set<std::vector<double>> proposed;
  for (uint64_t trial = 0; trial < 64; ++trial) {
    CounterRng random(1, trial);
    Proposal proposal = region.ask({}, random);
    proposed.insert(proposal.values);
    if (trial >= 16) region.tell(evaluated(proposal, 1.0 + static_cast<double>(trial % 7), static_cast<int64_t>(trial)));
  }
  EXPECT_EQ(proposed.size(), 64U);
}

TEST(QuadraticTrustRegion, ProposesTheSameForTheSame) {
  const TestFunction function = off_centre("rosenbrock", 3);
  const Space space = function.space();
  QuadraticTrustRegion a(space, {}, 5);
  QuadraticTrustRegion b(space, {}, 5);
  EXPECT_EQ(losses_of(a, function, 300, 3), losses_of(b, function, 300, 3));
}

TEST(QuadraticTrustRegion, BeginsWhereItIsTold) {
  const Space space = test_function("sphere", 2).space();
  const std::vector<double> start{1.5, -2.5};
  CounterRng random(1);
  EXPECT_EQ(QuadraticTrustRegion(space, {.start = start}, 1).ask({}, random).values, start);
  EXPECT_THROW(QuadraticTrustRegion(space, {.start = {9, 9}}, 1), ContractError);
  EXPECT_THROW(QuadraticTrustRegion(space, {.radius = 0}, 1), ContractError);
  EXPECT_THROW(QuadraticTrustRegion(space, {.radius = 0.1, .collapsed = 0.2}, 1), ContractError);
  EXPECT_THROW(QuadraticTrustRegion(space, {}, 1, {2, 2}), ContractError);
}

// Two workers make half of the evaluations each, and receive each other's results after each of their own.
TEST(QuadraticTrustRegion, IsSharedByWorkers) {
  const TestFunction function = off_centre("sphere", 5);
  const Space space = function.space();
  QuadraticTrustRegion first(space, {}, 1, {0, 2});
  QuadraticTrustRegion second(space, {}, 1, {1, 2});
  double least = 1e300;
  std::set<std::vector<double>> proposed;
  for (int64_t trial = 0; trial < 160; trial += 2) {
    CounterRng random_of_first(1, static_cast<uint64_t>(trial));
    CounterRng random_of_second(1, static_cast<uint64_t>(trial + 1));
    const Proposal a = first.ask({}, random_of_first);
    const Proposal b = second.ask({}, random_of_second);
    proposed.insert(a.values);
    proposed.insert(b.values);
    const Individual of_a = evaluated(a, function.value(a.values), trial);
    const Individual of_b = evaluated(b, function.value(b.values), trial + 1);
    for (QuadraticTrustRegion* each : {&first, &second}) {
      each->tell(of_a);
      each->tell(of_b);
    }
    least = std::min({least, of_a.loss, of_b.loss});
    EXPECT_LE(std::abs(first.restarts() - second.restarts()), 1) << "one hears of a new run by its first trial";
  }
  EXPECT_LE(least, 1e-8);
  EXPECT_EQ(proposed.size(), 160U);
}

// A model's proposal may be a known position whose loss contradicts the model: the region must shrink then, too.
TEST(QuadraticTrustRegion, GoesOnWhereModelsAreWrong) {
  const TestFunction function = ellipsoid(5);
  const Space space = function.space();
  for (const size_t in_flight : {1, 4}) {
    QuadraticTrustRegion region(space, {}, 1);
    losses_of(region, function, 2000, in_flight);
    EXPECT_GE(region.restarts(), 2) << in_flight;
  }
}

TEST(QuadraticTrustRegion, BeginsAnewWhereNothingIsToBeGained) {
  const TestFunction flat{"flat", {0, 0}, {1, 1}, 1, {0, 0}, [](std::span<const double>) { return 1.0; }};
  const Space space = flat.space();
  QuadraticTrustRegion region(space, {}, 1);
  losses_of(region, flat, 500);
  EXPECT_GE(region.restarts(), 2);
}

TEST(QuadraticTrustRegion, TriesNothingTwiceInACorner) {
  const TestFunction corner{"corner", {0, 0}, {1, 1}, 0, {0, 0}, [](std::span<const double> x) { return x[0] + x[1]; }};
  const Space space = corner.space();
  for (const size_t in_flight : {1, 8}) {
    QuadraticTrustRegion region(space, {}, 1);
    std::set<std::vector<double>> tried;
    TestFunction noted = corner;
    noted.value = [&](std::span<const double> x) {
      EXPECT_TRUE(tried.insert({x.begin(), x.end()}).second) << x[0] << ' ' << x[1];
      return corner.value(x);
    };
    EXPECT_LE(least_of(losses_of(region, noted, 100, in_flight)), 1e-3);
  }
}

TEST(QuadraticTrustRegion, LeavesOutWhatFailed) {
  const TestFunction function = off_centre("sphere", 3);
  const Space space = function.space();
  QuadraticTrustRegion region(space, {}, 1);
  double least = 1e300;
  for (int64_t trial = 0; trial < 150; ++trial) {
    CounterRng random(1, static_cast<uint64_t>(trial));
    const Proposal proposal = region.ask({}, random);
    const bool fails = trial % 3 == 1;
    const double loss = function.value(proposal.values);
    region.tell(fails ? failed(proposal, trial) : evaluated(proposal, loss, trial));
    if (!fails) least = std::min(least, loss);
  }
  EXPECT_LE(least, 1e-6);
}

/// The true loss of the trial that looks best under noise, median over seeds.
double median_under_noise(const TestFunction& function, double deviation, int64_t evaluations, bool by_chance) {
  const Space space = function.space();
  std::vector<double> medians;
  for (uint64_t seed = 0; seed < 11; ++seed) {
    Breeder chance(space, uniform_child());
    QuadraticTrustRegion region(space, {}, seed);
    CounterRng noise(seed, 1);
    std::vector<double> truth;
    TestFunction noisy = function;
    noisy.value = [&](std::span<const double> x) {
      truth.push_back(function.value(x));
      return truth.back() + deviation * normal(noise);
    };
    const std::vector<double> losses = losses_of(by_chance ? static_cast<Propagator&>(chance) : region, noisy, evaluations, 1, seed);
    medians.push_back(truth[static_cast<size_t>(std::ranges::min_element(losses) - losses.begin())]);
  }
  std::ranges::nth_element(medians, medians.begin() + 5);
  return medians[5];
}

// The deviation is a tenth of the range of values. A region that shrinks around lucky trials is no better than random search. Over 41 seeds and six
// functions, the median is 0.3 to 0.6 of random search's.
TEST(QuadraticTrustRegion, StaysWideUnderNoise) {
  for (const size_t dimensions : {2, 5}) {
    const TestFunction sphere = off_centre("sphere", dimensions);  // up to 6.5^2 per dimension
    const double range = 40 * static_cast<double>(dimensions);
    EXPECT_LE(median_under_noise(sphere, range / 10, 150, false), 0.7 * median_under_noise(sphere, range / 10, 150, true)) << dimensions;
  }
}

TEST(QuadraticTrustRegion, TakesSpacesOfOnePoint) {
  const Space space{integer("one", 3, 3), real("x", 0, 1)};
  const TestFunction function{"line", {0, 0}, {1, 1}, 0, {0, 0}, [](std::span<const double> x) { return x[1]; }};
  QuadraticTrustRegion region(space, {}, 1);
  EXPECT_LE(least_of(losses_of(region, function, 60)), 1e-3);
}

}  // namespace quadratic_trust_region_test
}  // namespace tw::search
