// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tw/base/error.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/gaussian_process.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace gaussian_process_test {

using Loss = std::function<double(const std::vector<double>&)>;
const Population nobody;

double best_of(const std::vector<double>& losses) { return *std::ranges::min_element(losses); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The proposals of a search with one trial at a time. A NaN loss means failure.
std::vector<Proposal> proposals_of(Propagator& propagator, const Loss& loss, int64_t evaluations, uint64_t seed = 1) {
  std::vector<Proposal> proposals;
  Population population;
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    CounterRng random(seed, static_cast<uint64_t>(trial));
    proposals.push_back(propagator.ask(population, random));
    const double value = loss(proposals.back().values);
    const Individual individual = std::isnan(value) ? failed(proposals.back(), trial) : evaluated(proposals.back(), value, trial);
    population.add(individual);
    propagator.tell(individual);
  }
  return proposals;
}

TEST(GaussianProcess, ConvergesInFewTrials) {
  struct Case {
    const char* name;
    size_t dimensions;
    int64_t evaluations;
    size_t in_flight;
    double loss;  // median over seeds
  };
  for (const Case& c :
       {Case{"sphere", 2, 30, 1, 1e-6}, Case{"sphere", 10, 150, 1, 1e-6}, Case{"rosenbrock", 2, 80, 1, 1e-3}, Case{"sphere", 5, 160, 8, 1e-6}}) {
    const TestFunction function = test_function(c.name, c.dimensions);
    const Space space = function.space();
    std::vector<double> found;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      GaussianProcess propagator(space, {}, seed);
      found.push_back(best_of(losses_of(propagator, function, c.evaluations, c.in_flight, seed)));
    }
    EXPECT_LT(median(found), c.loss) << c.name << ' ' << c.dimensions << ", " << c.in_flight << " in flight";
  }
}

TEST(GaussianProcess, IsBelowAThirdOfRandomSearchWhereMinimaAreMany) {
  const TestFunction function = test_function("griewank", 5);
  const Space space = function.space();
  std::vector<double> modelled;
  std::vector<double> random;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    GaussianProcess propagator(space, {}, seed);
    Breeder uniform(space, uniform_child());
    modelled.push_back(best_of(losses_of(propagator, function, 150, 1, seed)));
    random.push_back(best_of(losses_of(uniform, function, 150, 1, seed)));
  }
  EXPECT_LT(median(modelled), median(random) / 3);
}

TEST(GaussianProcess, TheSameIsProposedAgain) {
  const TestFunction function = test_function("rastrigin", 3);
  const Space space = function.space();
  const auto run = [&](uint64_t seed) {
    GaussianProcess propagator(space, {}, seed);
    return losses_of(propagator, function, 60, 3);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(GaussianProcess, WhatIsInFlightSpreadsABatch) {
  const TestFunction function = test_function("sphere", 2);
  const Space space = function.space();
  GaussianProcess propagator(space, {}, 1);
  proposals_of(propagator, [&](const auto& values) { return function.value(values); }, 8);
  std::vector<std::vector<double>> batch;
  double nearest = 1;
  for (uint64_t i = 0; i < 16; ++i) {
    CounterRng random(2, i);
    batch.push_back(space.encode(propagator.ask(nobody, random).values));
    for (size_t k = 0; k + 1 < batch.size(); ++k) {
      nearest = std::min(nearest, std::hypot(batch[k][0] - batch.back()[0], batch[k][1] - batch.back()[1]));
    }
  }
  EXPECT_GT(nearest, 1e-3);
}

TEST(GaussianProcess, LivesWithEqualLossesFailuresAndOthers) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  GaussianProcess flat(space, {}, 1);
  const auto proposals = proposals_of(flat, [](const auto&) { return 3.0; }, 60);
  std::set<std::vector<double>> different;
  for (const Proposal& each : proposals) different.insert(each.values);
  EXPECT_EQ(different.size(), 60U);

  GaussianProcess hopeless(space, {}, 1);
  for (const Proposal& each : proposals_of(hopeless, [](const auto&) { return std::nan(""); }, 60)) EXPECT_TRUE(space.contains(each.values));

  // Half of the space fails, and the minimum is near it.
  GaussianProcess careful(space, {}, 1);
  double best = 1;
  int failures = 0;
  proposals_of(
      careful,
      [&](const auto& values) {
        const double loss = std::pow(values[0] - 0.55, 2) + std::pow(values[1] - 0.3, 2);
        if (values[0] < 0.5) {
          ++failures;
          return std::nan("");
        }
        best = std::min(best, loss);
        return loss;
      },
      60);
  EXPECT_LT(best, 1e-4);
  EXPECT_LT(failures, 25);

  // Results of other workers are used.
  GaussianProcess told(space, {}, 1);
  CounterRng random(3);
  for (int64_t i = 0; i < 20; ++i) {
    const std::vector<double> values{uniform(random), uniform(random)};
    told.tell(evaluated({.values = values}, std::pow(values[0] - 0.2, 2) + std::pow(values[1] - 0.7, 2), i));
  }
  const Proposal next = told.ask(nobody, random);
  EXPECT_GE(next.tag.generation, 0);
  EXPECT_LT(std::hypot(next.values[0] - 0.2, next.values[1] - 0.7), 0.15);
}

TEST(GaussianProcess, TriesNothingTwiceWhileThereIsAnythingElse) {
  const Space space{categorical("a", {"p", "q", "r"}), integer("n", 1, 4)};
  GaussianProcess propagator(space, {}, 1);
  std::set<std::vector<double>> tried;
  for (const Proposal& each : proposals_of(propagator, [](const auto& values) { return values[0] + values[1]; }, 60)) tried.insert(each.values);
  EXPECT_EQ(tried.size(), 12U);

  const Space point{integer("only", 3, 3), categorical("one", {"a"})};
  GaussianProcess alone(point, {}, 1);
  for (const Proposal& each : proposals_of(alone, [](const auto&) { return 1.0; }, 30)) EXPECT_EQ(each.values, (std::vector<double>{3, 0}));
}

TEST(GaussianProcess, LeavesABranchWhereLittleIsLeftToGain) {
  // The first optimizer is good over half of the range, at best 0.2. The second is very bad over most of it, but falls to 0 in a twentieth.
  const Space space{categorical("optimizer", {"easy", "hard", "hopeless"}), real("lr", 0, 1), integer("batch", 1, 4)};
  const Loss loss = [](const std::vector<double>& values) {
    const double away = values[0] == 0 ? std::abs(values[1] - 0.5) : 10 * std::abs(values[1] - 0.9);
    return std::min(1.0, (values[0] == 0 ? 0.2 : values[0] == 1 ? 0 : 0.5) + away * away + 0.05 * std::abs(values[2] - 2));
  };
  std::vector<double> found;
  for (uint64_t seed = 0; seed < 7; ++seed) {
    GaussianProcess propagator(space, {}, seed);
    double best = 1;
    for (const Proposal& each : proposals_of(propagator, loss, 60, seed)) best = std::min(best, loss(each.values));
    found.push_back(best);
  }
  EXPECT_LT(median(found), 0.1);  // half of the easy optimizer's best loss, 0.2, which a search that never left it would reach
}

TEST(GaussianProcess, FindsItsWayThroughTenLevelsOfConditions) {
  // Each level exists only if the one above is on, and lowers the loss by 0.09. The last level adds a number that matters.
  std::vector<Parameter> parameters{categorical("on0", {"no", "yes"})};
  for (int i = 1; i < 10; ++i) parameters.push_back(categorical("on" + std::to_string(i), {"no", "yes"}).when("on" + std::to_string(i - 1), {"yes"}));
  parameters.push_back(real("depth", 0, 1).when("on9", {"yes"}));
  const Space space(parameters);
  const Loss loss = [](const std::vector<double>& values) {
    double sum = 1;
    for (size_t i = 0; i < 10; ++i) sum -= values[i] == 1 ? 0.09 : 0;
    return std::isnan(values[10]) ? sum : sum + std::abs(values[10] - 0.3) - 0.05;
  };
  std::vector<double> modelled;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    GaussianProcess propagator(space, {}, seed);
    double best = 1;
    for (const Proposal& each : proposals_of(propagator, loss, 100, seed)) {
      ASSERT_TRUE(space.contains(each.values));
      best = std::min(best, loss(each.values));
    }
    modelled.push_back(best);
  }
  EXPECT_LT(median(modelled), 0.06);  // the minimum is 0.05; random search turns on all ten levels once in 1024 trials
}

TEST(GaussianProcess, WithNoiseItIsBetterThanRandomSearch) {
  // The deviation of the noise is a tenth of the range of losses. The noise-free loss of the trial that seems best is what counts.
  const TestFunction function = test_function("sphere", 3);
  const Space space = function.space();
  const double range = function.value(std::vector<double>(function.high));
  const auto found = [&](Propagator& propagator, uint64_t seed) {
    CounterRng noise(seed, 1U << 20);
    double seen = 1e300;
    double truth = 0;
    proposals_of(
        propagator,
        [&](const auto& values) {
          const double loss = function.value(values);
          const double measured = loss + 0.1 * range * normal(noise);
          if (measured < seen) {
            seen = measured;
            truth = loss;
          }
          return measured;
        },
        90, seed);
    return truth;
  };
  std::vector<double> modelled;
  std::vector<double> random;
  for (uint64_t seed = 0; seed < 11; ++seed) {
    GaussianProcess propagator(space, {}, seed);
    Breeder uniform(space, uniform_child());
    modelled.push_back(found(propagator, seed));
    random.push_back(found(uniform, seed));
  }
  EXPECT_LT(median(modelled), median(random));
}

TEST(GaussianProcess, ACollapsedBoxBeginsAnew) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  GaussianProcess propagator(space, {.collapsed = 0.1}, 1);
  int covered = 0;
  for (const Proposal& each : proposals_of(propagator, [](const auto&) { return 1.0; }, 200)) covered += each.tag.generation < 0 ? 1 : 0;
  EXPECT_GE(propagator.restarts(), 3);
  EXPECT_EQ(covered, 4 * (propagator.restarts() + 1));
}

TEST(GaussianProcess, RefusesWrongOptions) {
  const Space space{real("x", 0, 1)};
  for (const GaussianProcessOptions& wrong :
       std::vector<GaussianProcessOptions>{{.trials = 1}, {.trials = 5000}, {.collapsed = 0}, {.collapsed = 2}}) {
    EXPECT_THROW(GaussianProcess(space, wrong, 1), ContractError);
  }
}

}  // namespace gaussian_process_test
}  // namespace tw::search
