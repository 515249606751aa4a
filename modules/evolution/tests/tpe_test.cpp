// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <tw/base/error.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/tpe.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace tpe_test {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

const Population nobody;

Proposal ask(Tpe& tpe, uint64_t trial, uint64_t seed = 1) {
  CounterRng random(seed, trial);
  return tpe.ask(nobody, random);
}

TEST(Tpe, ATenthIsGoodAnd25AtMost) {
  const TpeOptions options;
  EXPECT_EQ(options.good_of(1), 1U);
  EXPECT_EQ(options.good_of(10), 1U);
  EXPECT_EQ(options.good_of(11), 2U);
  EXPECT_EQ(options.good_of(250), 25U);
  EXPECT_EQ(options.good_of(100000), 25U);
  EXPECT_EQ((TpeOptions{.good_share = 0.5, .most_good = 3}.good_of(4)), 2U);
  EXPECT_EQ((TpeOptions{.good_share = 1, .most_good = 3}.good_of(7)), 3U);
}

/// The best loss of random search divided by TPE's, medians over seeds.
double advantage(const Space& space, const std::function<double(const Values&)>& loss, int64_t evaluations) {
  constexpr uint64_t seeds = 31;
  const auto median = [&](auto make) {
    std::vector<double> best;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const std::unique_ptr<Propagator> propagator = make();
      double least = std::numeric_limits<double>::infinity();
      for (int64_t trial = 0; trial < evaluations; ++trial) {
        CounterRng random(seed, static_cast<uint64_t>(trial));
        const Proposal proposal = propagator->ask(nobody, random);
        least = std::min(least, loss(proposal.values));
        propagator->tell(evaluated(proposal, loss(proposal.values), trial));
      }
      best.push_back(least);
    }
    std::ranges::nth_element(best, best.begin() + seeds / 2);
    return best[seeds / 2];
  };
  return median([&] { return std::make_unique<Breeder>(space, uniform_child()); }) / median([&] { return std::make_unique<Tpe>(space); });
}

Space optimizer_space() {
  return Space{real("lr", 1e-5, 1, log_scale),
               ordinal("batch", {8, 16, 32, 64, 128}),
               integer("layers", 1, 8),
               categorical("activation", {"relu", "tanh", "sigmoid"}),
               categorical("optimizer", {"sgd", "adam"}),
               real("momentum", 0, 1, Scale::linear, 0.05).when("optimizer", {"sgd"}),
               real("beta", 0, 1).when("optimizer", {"adam"})};
}

/// The minimum, 0, is at lr 1e-2, batch 32, 4 layers, tanh, and sgd with momentum 0.9; the other optimizer has a different best lr.
double optimizer_loss(const Space& space, const Values& values) {
  const Configuration c(space, values);
  const bool sgd = c.text("optimizer") == "sgd";
  double loss = std::pow(std::log10(c.real("lr")) + (sgd ? 2 : 3.5), 2) + std::pow(std::log2(c.real("batch")) - 5, 2) / 4;
  loss += std::pow(static_cast<double>(c.integer("layers")) - 4, 2) / 8 + (c.text("activation") == "tanh" ? 0 : 0.5);
  return loss + (sgd ? 2 * std::pow(c.real("momentum") - 0.9, 2) : 1 + std::pow(c.real("beta") - 0.5, 2));
}

TEST(Tpe, BeatsRandomSearch) {
  for (const auto& [name, dimensions, margin] :
       std::vector<std::tuple<const char*, size_t, double>>{{"sphere", 5, 30}, {"rosenbrock", 2, 4}, {"griewank", 10, 5}}) {
    const TestFunction function = test_function(name, dimensions);
    const Space space = function.space();
    const double a = advantage(space, [&](const Values& x) { return function.value(x) - function.minimum; }, 100);
    EXPECT_GT(a, margin) << name;
  }
  const Space space = optimizer_space();
  const double a = advantage(space, [&](const Values& x) { return optimizer_loss(space, x); }, 100);
  EXPECT_GT(a, 30);
}

TEST(Tpe, TheSameIsProposedAgain) {
  const TestFunction function = test_function("rastrigin", 4);
  const Space space = function.space();
  const auto run = [&](uint64_t seed) {
    Tpe tpe(space);
    return losses_of(tpe, function, 200, 3, seed);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Tpe, ItsOwnResultsAreForgottenWhereTheyWereInFlight) {
  // A propagator that asks and receives results behaves like one that only receives results.
  const TestFunction function = test_function("sphere", 3);
  const Space space = function.space();
  Tpe asking(space);
  Tpe listening(space);
  for (uint64_t trial = 0; trial < 40; ++trial) {
    const Proposal proposal = ask(asking, trial);
    const Individual individual = evaluated(proposal, function.value(proposal.values));
    asking.tell(individual);
    listening.tell(individual);
  }
  for (uint64_t trial = 50; trial < 60; ++trial) EXPECT_EQ(ask(asking, trial).values, ask(listening, trial).values);
}

TEST(Tpe, ProposalsInFlightKeepTheirDistances) {
  const TestFunction function = test_function("sphere", 2);
  const Space space = function.space();
  const auto after = [&](uint64_t seed) {
    auto tpe = std::make_unique<Tpe>(space);
    for (uint64_t trial = 0; trial < 40; ++trial) {
      const Proposal proposal = ask(*tpe, trial, seed);
      tpe->tell(evaluated(proposal, function.value(proposal.values)));
    }
    return tpe;
  };
  const auto mean_distance_to_nearest = [&](const std::vector<Values>& points) {
    double sum = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      double nearest = 10;
      for (size_t k = 0; k < points.size(); ++k) {
        if (k != i) nearest = std::min(nearest, std::hypot(points[i][0] - points[k][0], points[i][1] - points[k][1]));
      }
      sum += nearest;
    }
    return sum / static_cast<double>(points.size());
  };
  double together = 0;
  double unaware = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto one = after(seed);
    std::vector<Values> in_flight;
    std::vector<Values> apart;
    for (uint64_t trial = 100; trial < 116; ++trial) {
      in_flight.push_back(space.encode(ask(*one, trial, seed).values));
      apart.push_back(space.encode(ask(*after(seed), trial, seed).values));
    }
    together += mean_distance_to_nearest(in_flight);
    unaware += mean_distance_to_nearest(apart);
  }
  EXPECT_GT(together, 1.5 * unaware);
}

TEST(Tpe, ProposesWhatExistsAlone) {
  const Space space = optimizer_space();
  Tpe tpe(space);
  std::set<double> optimizers;
  for (uint64_t trial = 0; trial < 300; ++trial) {
    const Proposal proposal = ask(tpe, trial);
    ASSERT_TRUE(space.contains(proposal.values)) << Configuration(space, proposal.values).describe();
    optimizers.insert(proposal.values[4]);
    tpe.tell(evaluated(proposal, optimizer_loss(space, proposal.values)));
  }
  EXPECT_EQ(optimizers.size(), 2U);
}

TEST(Tpe, GoesDownTenLevelsOfConditions) {
  std::vector<Parameter> parameters{categorical("go0", {"no", "yes"})};
  for (int level = 1; level < 10; ++level) {
    parameters.push_back(categorical("go" + std::to_string(level), {"no", "yes"}).when("go" + std::to_string(level - 1), {"yes"}));
  }
  const Space space(parameters);
  const auto loss = [](const Values& values) { return -static_cast<double>(std::ranges::count(values, 1.0)); };
  std::vector<double> best;
  for (uint64_t seed = 0; seed < 11; ++seed) {
    Tpe tpe(space);
    best.push_back(0);
    for (uint64_t trial = 0; trial < 60; ++trial) {
      const Proposal proposal = ask(tpe, trial, seed);
      ASSERT_TRUE(space.contains(proposal.values));
      best.back() = std::min(best.back(), loss(proposal.values));
      tpe.tell(evaluated(proposal, loss(proposal.values)));
    }
  }
  std::ranges::sort(best);
  EXPECT_EQ(best[5], -10);  // 60 uniform draws reach it in one of 17 runs
}

TEST(Tpe, WhatFailsIsAvoidedWhereItLies) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  for (const TrialState state : {TrialState::failed, TrialState::infeasible}) {
    int known = 0;
    int unknown = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Tpe told(space);
      Tpe told_of_successes(space);
      CounterRng random(seed, 1000);
      for (int trial = 0; trial < 100; ++trial) {
        const double x = trial % 2 == 0 ? 0.3 + 0.1 * static_cast<double>(random()) * 0x1p-32 : static_cast<double>(random()) * 0x1p-32;
        const bool fails = x > 0.35;  // would be the best region otherwise
        Individual individual = evaluated({.values = {x, static_cast<double>(random()) * 0x1p-32}}, std::abs(x - 0.35));
        if (fails) individual.state = state;
        told.tell(individual);
        if (!fails) told_of_successes.tell(individual);
      }
      for (uint64_t trial = 0; trial < 20; ++trial) {
        known += ask(told, trial, seed).values[0] > 0.35 ? 1 : 0;
        unknown += ask(told_of_successes, trial, seed).values[0] > 0.35 ? 1 : 0;
      }
    }
    EXPECT_LT(known, 0.6 * unknown) << "of 200";
  }
}

TEST(Tpe, TakesWhateverLosses) {
  const Space space{real("x", 0, 1), categorical("word", {"a", "b"}), real("y", 1, 2).when("word", {"b"})};
  for (const double loss : {0.0, none, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 1e308}) {
    Tpe tpe(space);
    Values smallest = {1, 2, 2};
    Values largest = {0, 0, 0};
    for (uint64_t trial = 0; trial < 100; ++trial) {
      const Proposal proposal = ask(tpe, trial);
      ASSERT_TRUE(space.contains(proposal.values)) << loss;
      smallest[0] = std::min(smallest[0], proposal.values[0]);
      largest[0] = std::max(largest[0], proposal.values[0]);
      tpe.tell(evaluated(proposal, loss));
    }
    EXPECT_LT(smallest[0], 0.2) << loss;  // no gain is possible anywhere, so it explores everywhere
    EXPECT_GT(largest[0], 0.8) << loss;
  }
}

TEST(Tpe, ProposesEachOfAFewConfigurationsOnce) {
  Space space{integer("x", 1, 4), categorical("word", {"a", "b", "c"}), ordinal("y", {1, 2}).when("word", {"c"})};
  space.require("not 3", [](const Configuration& c) { return c.integer("x") != 3; });
  Tpe tpe(space);
  std::set<std::string> seen;
  for (uint64_t trial = 0; trial < 30; ++trial) {
    const Proposal proposal = ask(tpe, trial);
    const Configuration c(space, proposal.values);
    ASSERT_TRUE(space.contains(proposal.values));
    EXPECT_EQ(space.violated(proposal.values), "");
    EXPECT_EQ(seen.insert(c.describe()).second, trial < 12) << "trial " << trial << ": " << c.describe();  // 3 (1 + 1 + 2)
    if (trial % 3 != 0) tpe.tell(evaluated(proposal, static_cast<double>(c.integer("x"))));                // the others stay in flight
  }
}

TEST(Tpe, ASpaceOfOnePoint) {
  const Space space{integer("x", 3, 3), categorical("word", {"a"})};
  Tpe tpe(space);
  for (uint64_t trial = 0; trial < 30; ++trial) {
    const Proposal proposal = ask(tpe, trial);
    EXPECT_EQ(proposal.values, (Values{3, 0}));
    tpe.tell(evaluated(proposal, 1));
  }
}

TEST(Tpe, MeetsConstraints) {
  Space space{real("x", 0, 1), real("y", 0, 1)};
  space.require("a band", [](const Configuration& c) { return std::abs(c.real("x") - c.real("y")) < 0.02; });  // 4 % of the space
  Tpe tpe(space);
  int infeasible = 0;
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const Proposal proposal = ask(tpe, trial);
    const bool wrong = !space.violated(proposal.values).empty();
    infeasible += wrong ? 1 : 0;
    Individual individual = evaluated(proposal, proposal.values[0]);
    if (wrong) individual.state = TrialState::infeasible;
    tpe.tell(individual);
  }
  EXPECT_EQ(infeasible, 0);  // 0.96^240 = 6e-5 per proposal
}

TEST(Tpe, RefusesWrongOptions) {
  const Space space{real("x", 0, 1)};
  for (const TpeOptions& wrong : std::vector<TpeOptions>{{.startup = 0},
                                                         {.good_share = 0},
                                                         {.good_share = 1.1},
                                                         {.most_good = 0},
                                                         {.candidates = 0},
                                                         {.bandwidth = 0},
                                                         {.uniform_share = 0},
                                                         {.uniform_share = none}}) {
    EXPECT_THROW(Tpe(space, wrong), ContractError);
  }
}

}  // namespace tpe_test
}  // namespace tw::search
