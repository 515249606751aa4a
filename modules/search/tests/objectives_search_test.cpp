// SPDX-License-Identifier: Apache-2.0
// Several objectives, and constraints with values.
#include "searches.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/evolution/pareto.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace objectives_search_test {

using testing::fresh_folder;
using testing::world;

const std::vector<std::string> names{"error", "seconds"};

Space plane() { return {real("x", -5, 5), real("y", 0, 1)}; }

/// Best where y is 0 and x between 0 and 2.
std::vector<double> values_of(double x, double y) { return {x * x + y, (x - 2) * (x - 2) + y}; }

Outcome objective(const Configuration& c, Trial& /*trial*/) { return values_of(c.real("x"), c.real("y")); }

std::string text_of(const std::vector<Individual>& individuals) {
  std::string text;
  for (const Individual& each : individuals) text += concat(each.trial, ' ', each.objectives[0], ' ', each.objectives[1], '\n');
  return text;
}

std::vector<Individual> front_in(const std::filesystem::path& folder) {
  const Ledger ledger = read_ledger(folder, plane());
  EXPECT_EQ(ledger.objectives, names);
  std::vector<Individual> all, front;
  for (const LedgerEntry& entry : ledger.trials) all.push_back(entry.individual);
  for (const Individual* each : front_of(all)) front.push_back(*each);
  return front;
}

/// On as many islands as there are ranks, from where half of the trials are moved.
TEST(ObjectivesSearch, TheFrontIsThatOfAllTrials) {
  const auto folder = fresh_folder("front");
  SearchOptions options{.islands = world().size(), .evaluations = 200, .objectives = names, .journal = folder, .migration = {.probability = 0.5}};
  for (const int64_t evaluations : {200, 400}) {  // the second one goes on from the first one's journal
    options.evaluations = evaluations;
    Search search(world(), plane(), objective, options);
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete, evaluations);
    EXPECT_TRUE(all_agree(world(), text_of(result.front)));
    EXPECT_EQ(text_of(result.front), text_of(front_in(folder)));
    EXPECT_EQ(result.best.trial, result.front.front().trial);
    for (const Individual& each : search.population().all()) EXPECT_EQ(each.objectives, values_of(each.values[0], each.values[1]));
    world().barrier();  // before the journal is written again
  }
  if (world().size() > 1) return;
  EXPECT_GT(front_in(folder).size(), 10U);
  // Uniform ones have y below 0.2 in one of five cases, and those of the front do not by chance.
  for (const Individual& each : front_in(folder)) EXPECT_LT(each.values[1], 0.2);
}

TEST(ObjectivesSearch, GoesOnInAnotherLayout) {
  const auto folder = fresh_folder("layout");
  SearchOptions options{.evaluations = 60, .objectives = names, .journal = folder};
  Search(world(), plane(), objective, options).run();
  options.islands = world().size();
  options.evaluations = 120;
  const SearchResult result = Search(world(), plane(), objective, options).run();
  EXPECT_EQ(result.complete, 120);
  EXPECT_EQ(text_of(result.front), text_of(front_in(folder)));
  world().barrier();
  options.objectives = {"seconds", "error"};
  EXPECT_THROW(Search(world(), plane(), objective, options), Error) << "a journal of other objectives";
}

/// Propagators know of them, also when the search goes on; on the front are its own trials alone.
TEST(ObjectivesSearch, BeginsWithResultsOfAnotherSearch) {
  const auto folder = fresh_folder("warm_front");
  SearchOptions options{.evaluations = 40, .objectives = names, .journal = folder / "first"};
  Search(world(), plane(), objective, options).run();
  options.warm_start = options.journal;
  options.journal = folder / "second";
  for (const int64_t evaluations : {20, 40}) {
    options.evaluations = evaluations;
    Search search(world(), plane(), objective, options);
    const SearchResult result = search.run();
    EXPECT_EQ(search.population().all().size(), static_cast<size_t>(evaluations + 40));
    for (const Individual& each : search.population().all()) EXPECT_EQ(each.objectives, values_of(each.values[0], each.values[1]));
    EXPECT_EQ(text_of(result.front), text_of(front_in(options.journal)));
    world().barrier();
  }
}

TEST(ObjectivesSearch, AWrongNumberOfValuesIsAFailure) {
  const auto outcome = [](const Configuration& c, Trial& trial) -> Outcome {
    if (trial.number() % 4 == 0) return {1, 2, 3};
    if (trial.number() % 4 == 1) return 1;
    if (trial.number() % 4 == 2) return {1, std::nan("")};
    return {c.real("x"), 1};
  };
  Search search(world(), plane(), outcome, {.evaluations = 40, .objectives = names});
  const SearchResult result = search.run();
  EXPECT_EQ(result.failed + result.complete, 40);
  for (const Individual& each : search.population().all()) EXPECT_EQ(each.has_comparable_loss(), each.trial % 4 == 3);
  if (world().size() == 1) {
    EXPECT_EQ(result.first_failure, "trial 0: the objective returns 3 values; expected 2");
  }
  Search one(world(), plane(), outcome, {.evaluations = 40});
  one.run();
  for (const Individual& each : one.population().all()) EXPECT_EQ(each.has_comparable_loss(), each.trial % 4 == 1);
}

/// x is to be 1 at least; where it is below 0, nothing can be evaluated.
TEST(ObjectivesSearch, WhatViolatesConstraintsIsKeptAndIsNotBest) {
  const auto constrained = [](const Configuration& c, Trial& /*trial*/) {
    const double x = c.real("x");
    return Outcome(x < 0 ? std::nan("") : x * x).constrained({1 - x, -1});
  };
  const auto folder = fresh_folder("constrained");
  Search search(world(), plane(), constrained, {.evaluations = 150, .journal = folder});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.infeasible, 150);
  EXPECT_GT(result.infeasible, 10);
  EXPECT_GE(result.best.values[0], 1);
  if (world().size() == 1) {
    EXPECT_LT(result.best.values[0], 1.5);
  }
  ASSERT_EQ(result.front.size(), 1U);
  EXPECT_EQ(result.front[0].trial, result.best.trial);
  for (const LedgerEntry& entry : read_ledger(folder, plane()).trials) {
    const Individual& each = entry.individual;
    EXPECT_EQ(entry.constraints, (std::vector{1 - each.values[0], -1.0}));
    EXPECT_EQ(each.violation, std::max(0.0, 1 - each.values[0]));
    EXPECT_EQ(each.state == TrialState::infeasible, each.violation > 0);
    EXPECT_EQ(std::isfinite(each.loss), each.values[0] >= 0);
    EXPECT_EQ(entry.message, each.violation > 0 ? "violates constraint 1" : "");
  }
}

TEST(ObjectivesSearch, AConstraintWithoutAValueIsAFailure) {
  const auto outcome = [](const Configuration&, Trial&) { return Outcome(1).constrained({std::nan("")}); };
  EXPECT_EQ(Search(world(), plane(), outcome, {.evaluations = 5}).run().failed, 5);
}

TEST(ObjectivesSearch, RefusesWhatGoesByOneLoss) {
  const auto refused = [](SearchOptions options) {
    options.evaluations = 5;
    EXPECT_THROW(Search(world(), plane(), objective, options), ContractError);
  };
  refused({.objectives = {"error", "error"}});
  refused({.objectives = {"error", ""}});
  refused({.target = 1, .objectives = names});
  refused({.objectives = names, .scheduler = [] { return median_rule(); }});
  refused({.objectives = names, .scheduler = PromotionOptions()});
}

}  // namespace objectives_search_test
}  // namespace tw::search
