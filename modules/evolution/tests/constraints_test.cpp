// SPDX-License-Identifier: Apache-2.0
// Every propagator that learns from losses also learns from constraints with values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <vector>

namespace tw::search {
namespace constraints_test {

using Values = std::vector<double>;
using Function = std::function<double(const Values&)>;

/// A loss, and a constraint that is at most 0 for allowed configurations.
struct Problem {
  Function loss;
  Function constraint;
};

Individual judged(const Proposal& proposal, int64_t trial, const Problem& problem) {
  const double violation = std::max(0.0, problem.constraint(proposal.values));
  return {.trial = trial,
          .values = proposal.values,
          .loss = problem.loss(proposal.values),
          .violation = violation,
          .state = violation > 0 ? TrialState::infeasible : TrialState::complete,
          .tag = proposal.tag};
}

constexpr int64_t evaluations = 400;
constexpr size_t others = 20;

/// A search, one trial at a time, that begins with random trials of other workers, all of which violate the constraint. @return its own trials
std::vector<Individual> trials_of(const NamedPropagator& named, const Space& space, const Problem& problem, uint64_t seed) {
  const std::unique_ptr<Propagator> propagator = named.make(space, evaluations, seed, 0, 1);
  Population population;
  const auto tell = [&](const Individual& individual) {
    population.add(individual);
    propagator->tell(individual);
  };
  for (int64_t trial = evaluations; population.all().size() < others; ++trial) {
    CounterRng random(seed, static_cast<uint64_t>(trial));
    Individual other = judged({.values = space.decode({uniform(random), uniform(random)}), .tag = {.index = -1}}, trial, problem);
    other.moves = 1;
    if (other.has_known_violation()) tell(other);
  }
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    CounterRng random(seed, static_cast<uint64_t>(trial));
    tell(judged(propagator->ask(population, random), trial, problem));
  }
  return {population.all().begin() + others, population.all().end()};
}

double min_loss(const std::vector<Individual>& trials) {
  double least = std::numeric_limits<double>::infinity();
  for (const Individual& each : trials) least = each.has_comparable_loss() ? std::min(least, each.loss) : least;
  return least;
}

double allowed_share(const std::vector<Individual>& trials) {
  return static_cast<double>(std::ranges::count_if(trials, &Individual::has_comparable_loss)) / static_cast<double>(trials.size());
}

using Figure = double (*)(const std::vector<Individual>&);

/// The median over three seeds.
double median_of(Figure figure, const NamedPropagator& named, const Space& space, const Problem& problem) {
  std::vector<double> figures;
  for (uint64_t seed = 1; seed <= 3; ++seed) figures.push_back(figure(trials_of(named, space, problem, seed)));
  std::ranges::sort(figures);
  return figures[1];
}

/// Whether the propagator learns from results at all.
bool learns(const NamedPropagator& named) {
  const std::string name = named.name;
  return name != "sobol" && name != "random";
}

const Space plane{real("x", -5, 5), real("y", -5, 5)};

/// The sphere without its centre, where searches begin: the least allowed loss is 2, at (1, 1). At a distance d from there the loss rises by 4 d, and
/// at most half a disc is allowed. Of 400 random trials in an area of 100, the nearest has d = 0.4 or so, an excess of at most 1.6. Genetic search
/// draws the first 64 at random, and has few generations left.
TEST(Constraints, CutOutTheOptimum) {
  const Problem problem{.loss = [](const Values& v) { return v[0] * v[0] + v[1] * v[1]; },
                        .constraint = [](const Values& v) { return 2 - v[0] - v[1]; }};
  std::map<std::string, double> excess;
  for (const NamedPropagator& each : named_propagators()) excess[each.name] = median_of(min_loss, each, plane, problem) - 2;
  for (const NamedPropagator& each : named_propagators()) {
    const double limit = each.name == std::string("genetic") ? excess["random"] : 0.1;
    EXPECT_TRUE(!learns(each) || excess[each.name] < limit) << each.name << ": " << excess[each.name];
  }
}

/// An allowed disc of 1 % of the plane, to which no loss leads: outside, only the distance to it is known. It must contain ten times as many trials
/// as in random search.
TEST(Constraints, LeadToWhatIsAllowed) {
  const Problem problem{.loss = [](const Values&) { return 1.0; },
                        .constraint = [](const Values& v) { return std::hypot(v[0] - 3, v[1] + 2) - 0.56; }};
  for (const NamedPropagator& each : named_propagators()) {
    const double share = median_of(allowed_share, each, plane, problem);
    EXPECT_TRUE(!learns(each) || share > 0.1) << each.name << ": " << share;
  }
}

}  // namespace constraints_test
}  // namespace tw::search
