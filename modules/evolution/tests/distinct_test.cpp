// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/distinct.hpp>
#include <tw/evolution/named_propagators.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace distinct_test {

Space grid() { return {integer("x", 1, 10), ordinal("y", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})}; }

double bowl(const std::vector<double>& values) { return std::pow(values[0] - 3, 2) + std::pow(values[1] - 6, 2); }

/// Proposals of a search with `in_flight` trials in flight at any time.
template <class Loss>
std::vector<std::vector<double>> tried(Propagator& propagator, const Loss& loss, int64_t evaluations, size_t in_flight = 1) {
  Population population;
  std::deque<Individual> waiting;
  std::vector<std::vector<double>> all;
  for (int64_t trial = 0; trial < evaluations; ++trial) {
    CounterRng random(1, static_cast<uint64_t>(trial));
    const Proposal proposal = propagator.ask(population, random);
    all.push_back(proposal.values);
    waiting.push_back(evaluated(proposal, loss(proposal.values), trial));
    if (waiting.size() < in_flight) continue;
    population.add(waiting.front());
    propagator.tell(waiting.front());
    waiting.pop_front();
  }
  return all;
}

size_t different(const std::vector<std::vector<double>>& all) { return std::set(all.begin(), all.end()).size(); }

std::unique_ptr<Propagator> distinct(const Space& space, const NamedPropagator& named, int64_t evaluations) {
  return std::make_unique<Distinct>(space, named.make(space, evaluations, 5, 0, 1));
}

TEST(Distinct, NothingIsTriedTwiceBeforeEverythingWas) {
  const Space space = grid();
  for (const NamedPropagator& named : named_propagators()) {
    for (const size_t in_flight : {1, 8}) {
      const auto all = tried(*distinct(space, named, 130), bowl, 130, in_flight);
      EXPECT_EQ(different({all.begin(), all.begin() + 50}), 50U) << named.name;
      EXPECT_EQ(different({all.begin(), all.begin() + 100}), 100U) << named.name;
      for (const auto& values : all) EXPECT_TRUE(space.contains(values)) << named.name;
    }
  }
}

/// A space with conditional parameters and no continua: 3 + 2 (1 + 4) = 13 configurations.
TEST(Distinct, CountsWhatExists) {
  const Space space{categorical("kind", {"a", "b", "c"}), integer("n", 1, 3).when("kind", {"a"}),
                    categorical("more", {"no", "yes"}).when("kind", {"b", "c"}), ordinal("of", {1, 2, 3, 4}).when("more", {"yes"})};
  for (const NamedPropagator& named : named_propagators()) {
    std::vector<std::string> all;
    for (const auto& values : tried(*distinct(space, named, 13), [](const auto& v) { return v[0]; }, 13)) {
      EXPECT_TRUE(space.contains(values)) << named.name;
      all.push_back(Configuration(space, values).describe());
    }
    EXPECT_EQ(std::set(all.begin(), all.end()).size(), 13U) << named.name;
  }
}

/// A neighbour that replaces a repeated proposal is feasible: all 50 feasible ones come before the first repetition.
TEST(Distinct, StepsToWhatIsFeasible) {
  class Constant : public Propagator {
   public:
    Proposal ask(const Population&, CounterRng&) override { return {.values = {4, 5}}; }
  };
  Space space = grid();
  space.require("even", [](const Configuration& c) { return c.integer("x") % 2 == 0; });
  Distinct distinct(space, std::make_unique<Constant>());
  const auto all = tried(distinct, bowl, 60);
  EXPECT_EQ(different({all.begin(), all.begin() + 50}), 50U);
  for (const auto& values : all) EXPECT_EQ(space.violated(values), "");
  EXPECT_EQ(all.back(), (std::vector<double>{4, 5}));
}

/// Records what the inner propagator receives.
class Listener : public Propagator {
 public:
  Proposal ask(const Population&, CounterRng&) override { return {.values = {proposed < 3 ? 4.0 : 5.0, 2}, .tag = {.index = proposed++}}; }
  void tell(const Individual& individual) override { told.push_back(individual); }

  int32_t proposed = 0;
  std::vector<Individual> told;
};

TEST(Distinct, TellsOfRepetitionsAsIfTheyHadBeenEvaluated) {
  const Space space = grid();
  auto owned = std::make_unique<Listener>();
  Listener& listener = *owned;
  Distinct distinct(space, std::move(owned));
  CounterRng random(1);
  const Proposal first = distinct.ask({}, random);
  const Proposal second = distinct.ask({}, random);
  EXPECT_EQ(first.values, (std::vector<double>{4, 2}));
  EXPECT_EQ(first.tag.index, 0);
  // 1 and 2 are already in flight.
  EXPECT_EQ(second.values, (std::vector<double>{5, 2}));
  EXPECT_EQ(second.tag.index, 3);
  EXPECT_TRUE(listener.told.empty());
  distinct.tell(evaluated(first, 0.5, 7));
  ASSERT_EQ(listener.told.size(), 3U);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(listener.told[static_cast<size_t>(i)].tag.index, i);
    EXPECT_EQ(listener.told[static_cast<size_t>(i)].loss, 0.5);
    EXPECT_EQ(listener.told[static_cast<size_t>(i)].values, first.values);
  }
  // All other proposals are 5. Ten of them wait for the second one's result, and so does the eleventh, which is replaced by a neighbour of its own.
  const Proposal third = distinct.ask({}, random);
  EXPECT_EQ(third.tag.index, 14);
  EXPECT_EQ(std::abs(third.values[0] - 5) + std::abs(third.values[1] - 2), 1);
  EXPECT_NE(third.values, first.values);
  distinct.tell(evaluated(second, 1));
  EXPECT_EQ(listener.told.size(), 3U + 12U);
}

TEST(Distinct, LeavesContinuaAlone) {
  const Space space{real("x", -1, 1), integer("n", 1, 3)};
  for (const NamedPropagator& named : named_propagators()) {
    const auto loss = [](const auto& v) { return v[0] * v[0] + v[1]; };
    EXPECT_EQ(tried(*distinct(space, named, 120), loss, 120, 2), tried(*named.make(space, 120, 5, 0, 1), loss, 120, 2)) << named.name;
  }
}

TEST(Distinct, NeedsAPropagator) { EXPECT_THROW(Distinct(grid(), nullptr), ContractError); }

}  // namespace distinct_test
}  // namespace tw::search
