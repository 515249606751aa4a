// SPDX-License-Identifier: Apache-2.0
// Shares of the true front's hypervolume on ZDT1 to 3 in 30 dimensions, reached by the default propagator for two objectives and by random search:
// medians over seeds.
// Run: accept_fronts [SEEDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/hypervolume.hpp>
#include <vector>

#include "test_functions.hpp"

namespace {

using namespace tw::search;

struct Goal {
  int64_t evaluations;
  size_t in_flight;
  double share[3];  // required for ZDT1 to 3
};

// Measured shares minus a margin; random search reaches 0 everywhere.
constexpr Goal goals[] = {{2000, 1, {0.3, 0, 0.3}},
                          {5000, 1, {0.9, 0.1, 0.8}},
                          {10000, 1, {0.97, 0.8, 0.9}},
                          {25000, 1, {0.995, 0.995, 0.9}},
                          {25000, 64, {0.99, 0.99, 0.9}}};

double share_of(const TestProblem& problem, Propagator& propagator, int64_t evaluations, size_t in_flight, uint64_t seed) {
  const Population nobody;
  std::deque<Individual> running;
  std::vector<Individual> ended;
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    tw::CounterRng random(seed, static_cast<uint64_t>(trial));
    Proposal proposal = propagator.ask(nobody, random);
    std::vector<double> objectives = problem.objectives(proposal.values);
    running.push_back(
        {.trial = trial, .values = std::move(proposal.values), .loss = objectives[0], .objectives = objectives, .state = TrialState::complete});
    if (running.size() < in_flight) continue;
    propagator.tell(running.front());
    ended.push_back(std::move(running.front()));
    running.pop_front();
  }
  std::vector<ObjectiveView> points;
  for (const Individual* each : front_of(ended)) points.push_back(each->all_objectives());
  return hypervolume(points, std::vector{1.1, 1.1}) / problem.hypervolume;
}

double median(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 11;
  bool failed = false;
  for (const Goal& goal : goals) {
    for (size_t i = 0; i < 3; ++i) {
      const TestProblem problem = zdt_problems()[i];
      const Space space = problem.space();
      std::vector<double> found, by_chance;
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        const auto propagator = automatic(space, goal.evaluations, seed, 0, 1, 2);
        found.push_back(share_of(problem, *propagator, goal.evaluations, goal.in_flight, seed));
        Breeder uniform(space, uniform_child());
        by_chance.push_back(share_of(problem, uniform, goal.evaluations, goal.in_flight, seed));
      }
      const bool ok = median(found) >= goal.share[i] && median(found) >= median(by_chance);
      std::printf("%-5s %6lld evaluations, %2zu in flight: %.4f, random %.4f%s\n", problem.name.c_str(), static_cast<long long>(goal.evaluations),
                  goal.in_flight, median(found), median(by_chance), ok ? "" : "  TOO LITTLE");
      failed = failed || !ok;
    }
  }
  return failed ? 1 : 0;
}
