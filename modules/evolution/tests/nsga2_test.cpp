// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <tw/base/error.hpp>
#include <tw/evolution/hypervolume.hpp>
#include <tw/evolution/nsga2.hpp>

#include "test_functions.hpp"

namespace tw::search {
namespace nsga2_test {

using Evaluate = std::function<void(Individual&)>;

/// Runs a search with `in_flight` trials in flight at any time, which end in the order in which they began.
std::vector<Individual> search(Propagator& propagator, int64_t evaluations, const Evaluate& evaluate, size_t in_flight = 1, uint64_t seed = 1) {
  const Population nobody;
  std::vector<Individual> all;
  std::deque<Individual> waiting;
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    CounterRng random(seed, static_cast<uint64_t>(trial));
    Proposal proposal = propagator.ask(nobody, random);
    Individual& individual =
        waiting.emplace_back(Individual{.trial = trial, .values = std::move(proposal.values), .state = TrialState::complete, .tag = proposal.tag});
    evaluate(individual);
    if (waiting.size() < in_flight) continue;
    propagator.tell(waiting.front());
    all.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  return all;
}

void set(Individual& individual, std::vector<double> objectives) {
  individual.loss = objectives[0];
  individual.objectives = std::move(objectives);
}

double volume_of(const std::vector<Individual>& all, ObjectiveView reference) {
  std::vector<ObjectiveView> points;
  for (const Individual* each : front_of(all)) points.push_back(each->all_objectives());
  return hypervolume(points, reference);
}

/// Share of the true front's hypervolume, with a population of 40.
double share_reached(const TestProblem& problem, int64_t evaluations, size_t in_flight) {
  const Space space = problem.space();
  Nsga2 propagator(space, {.population = 40});
  const auto all = search(propagator, evaluations, [&](Individual& each) { set(each, problem.objectives(each.values)); }, in_flight);
  return volume_of(all, std::vector{1.1, 1.1}) / problem.hypervolume;
}

/// Over five seeds, ZDT1 reaches 0.9972 to 0.9982, ZDT2 0.9964 to 0.9981, and ZDT3 0.9985, or 0.936 without one of its pieces. Known wrong versions:
/// without crowding distances at most 0.991 on ZDT1 and 0.91 on ZDT2; with reversed domination 0.001 and 0.
TEST(Nsga2, ReachesTheFrontsOfZdt) {
  const std::vector<double> least{0.994, 0.994, 0.93};
  for (size_t i = 0; i < least.size(); ++i) EXPECT_GT(share_reached(zdt_problems()[i], 15000, 1), least[i]) << zdt_problems()[i].name;
}

TEST(Nsga2, NeedsNoGenerations) {
  for (const size_t in_flight : {16, 128}) EXPECT_GT(share_reached(zdt_problems()[0], 15000, in_flight), 0.98) << in_flight << " in flight";
}

TEST(Nsga2, IsAFunctionOfWhatItIsTold) {
  const TestProblem problem = zdt_problems()[2];
  const Space space = problem.space();
  const auto run = [&](uint64_t seed) {
    Nsga2 propagator(space, {.population = 8});
    return search(propagator, 200, [&](Individual& each) { set(each, problem.objectives(each.values)); }, 3, seed).back().values;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

/// x^2 and (x - 2)^2 with x at least 1: the front is from 1 to 2. Uniform children would be allowed in one of 20 cases.
TEST(Nsga2, ComesToWhatIsAllowed) {
  const Space space{real("x", -10, 2), real("y", 0, 1), real("z", 0, 1)};
  Nsga2 propagator(space, {.population = 16});
  const std::vector<Individual> all = search(propagator, 400, [](Individual& each) {
    const double x = each.values[0];
    set(each, {x * x, (x - 2) * (x - 2)});
    each.violation = std::max(0.0, 1 - x) + std::max(0.0, each.values[1] + each.values[2] - 0.75);
    if (each.violation > 0) each.state = TrialState::infeasible;
  });
  const auto allowed = [](const Individual& each) { return each.has_comparable_loss(); };
  EXPECT_LT(std::count_if(all.begin(), all.begin() + 16, allowed), 3);
  EXPECT_GT(std::count_if(all.end() - 100, all.end(), allowed), 50);
  // Share of the volume up to (4.41, 1.21), for x >= 1: integral of 1.21 - (2 - x)^2 over x^2 from 1 to 4, and the rest beyond.
  EXPECT_GT(volume_of(all, std::vector{4.41, 1.21}), 0.95 * (1.21 * 3.41 - 11.0 / 6));
}

/// An error that falls with the width, and a cost that grows with it. Only one kind of layer has a width; the other kind is dominated by half.
TEST(Nsga2, SearchesMixedAndConditionalSpaces) {
  const Space space{categorical("kind", {"dense", "none"}), integer("width", 1, 100, log_scale).when("kind", {"dense"}),
                    ordinal("batch", {16, 32, 64, 128}), real("lr", 1e-4, 1, log_scale)};
  Nsga2 propagator(space, {.population = 24});
  const std::vector<Individual> all = search(propagator, 1500, [&](Individual& each) {
    ASSERT_TRUE(space.contains(each.values));
    const double width = std::isnan(each.values[1]) ? 0.5 : each.values[1];
    const double off = std::abs(std::log10(each.values[3]) + 2) + std::abs(each.values[2] - 1);
    set(each, {1 / width + off, width + off});
  });
  // Errors 1/w at costs w, from 1 to 100: with widths at powers of 2 only, the volume would be a fifth smaller.
  std::vector<std::vector<double>> best;
  for (int width = 1; width <= 100; ++width) best.push_back({1.0 / width, static_cast<double>(width)});
  const std::vector<double> reference{1.5, 110};
  const double possible = hypervolume(std::vector<ObjectiveView>(best.begin(), best.end()), reference);
  EXPECT_GT(volume_of(all, reference), 0.99 * possible);
}

TEST(Nsga2, LeavesOutWhatFailed) {
  const Space space{real("x", 0, 1)};
  Nsga2 propagator(space, {.population = 4});
  // Half of the space fails, with a loss that would be the best of all.
  const std::vector<Individual> all = search(propagator, 200, [](Individual& each) {
    const bool fails = each.values[0] > 0.5;
    set(each, {fails ? -1e9 : each.values[0], fails ? -1e9 : 1 - each.values[0]});
    if (fails) each.state = TrialState::failed;
  });
  // Random proposals would fail 50 times, deviation 5; near the border some still fail.
  EXPECT_LT(std::count_if(all.end() - 100, all.end(), [](const Individual& each) { return !each.has_comparable_loss(); }), 35);
}

TEST(Nsga2, OneObjectiveWillDo) {
  const TestFunction function = test_function("sphere", 5);
  const Space space = function.space();
  Nsga2 propagator(space, {.population = 20});
  const std::vector<Individual> all = search(propagator, 3000, [&](Individual& each) { each.loss = function.value(each.values); });
  EXPECT_LT(std::ranges::min(all, {}, &Individual::loss).loss, 1e-3);
}

TEST(Nsga2, RefusesWhatDoesNotFit) {
  const Space space{real("x", 0, 1)};
  EXPECT_THROW(Nsga2(space, {.population = 3}), ContractError);
  EXPECT_THROW(Nsga2(space, {.crossover = 1.5}), ContractError);
  Nsga2 propagator(space);
  Individual individual{.values = {0.5}, .state = TrialState::complete};
  set(individual, {1, 2});
  propagator.tell(individual);
  set(individual, {1, 2, 3});
  EXPECT_THROW(propagator.tell(individual), ContractError);
  EXPECT_EQ(Nsga2Options::within(0).population, 100U);
  EXPECT_EQ(Nsga2Options::within(2500).population, 25U);
}

}  // namespace nsga2_test
}  // namespace tw::search
