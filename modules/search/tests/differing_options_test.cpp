// SPDX-License-Identifier: Apache-2.0
// What differs on one rank alone: an error on all, which names it, before anyone waits for another.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <functional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/search/check_objective.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace differing_options_test {

using testing::world;

Outcome objective(const Configuration& c, Trial& /*trial*/) { return c.real("x"); }

Space line() { return {real("x", 0, 1)}; }

/// Whether all ranks hear what `call` throws: how `odd_one` has 'odd' where rank 0 has 'usual'.
void expect_named(const std::function<void()>& call, int odd_one, const std::string& odd, const std::string& usual) {
  const std::string message = testing::message_of<ContractError>(call);
  EXPECT_NE(message.find(" must be the same on all ranks of "), std::string::npos) << message;
  const std::string expected = concat(": rank ", odd_one, " has ", odd, " where rank 0 has ", usual);
  EXPECT_NE(message.find(expected), std::string::npos) << message << "\n  expected" << expected;
}

struct Difference {
  std::function<void(SearchOptions&)> make;
  std::string odd;
  std::string usual;
};

/// Of options that have all of them.
void expect_all_named(const SearchOptions& usual, const std::vector<Difference>& differences) {
  for (const Difference& each : differences) {
    for (int odd = 1; odd < world().size(); ++odd) {
      SearchOptions options = usual;
      if (world().rank() == odd) each.make(options);
      expect_named([&] { Search(world(), line(), objective, options); }, odd, each.odd, each.usual);
    }
  }
}

TEST(DifferingOptions, AreNamedOnAllRanks) {
  SearchOptions usual{.island_workers = {1, 2}, .evaluations = 8, .journal = "one"};
  usual.migration.topology = {{0, 1}, {1, 0}};
  const auto none = [](const WorkerContext&) -> std::unique_ptr<Propagator> { return nullptr; };
  expect_all_named(usual,
                   {{[](SearchOptions& o) { o.islands = 3; }, "'islands 3'", "'islands 1'"},
                    {[](SearchOptions& o) { o.island_workers = {2, 1}; }, "'island_workers [2, 1]'", "'island_workers [1, 2]'"},
                    {[](SearchOptions& o) { o.ranks_per_worker = 2; }, "'ranks_per_worker 2'", "'ranks_per_worker 1'"},
                    {[](SearchOptions& o) { o.worker_ranks = {2, 1}; }, "'worker_ranks [2, 1]'", "'worker_ranks []'"},
                    {[](SearchOptions& o) { o.evaluations = 9; }, "'evaluations 9'", "'evaluations 8'"},
                    {[](SearchOptions& o) { o.seconds = 0.1234567890123; }, "'seconds 0.1234567890123'", "'seconds inf'"},
                    {[](SearchOptions& o) { o.target = 1e-300; }, "'target 1e-300'", "'target -inf'"},
                    {[](SearchOptions& o) { o.seed = 1; }, "'seed 1'", "'seed 0'"},
                    {[](SearchOptions& o) { o.journal = "another"; }, "'journal another'", "'journal one'"},
                    {[](SearchOptions& o) { o.max_attempts = 3; }, "'max_attempts 3'", "'max_attempts 2'"},
                    {[](SearchOptions& o) { o.progress = true; }, "'progress true'", "'progress false'"},
                    {[&](SearchOptions& o) { o.propagator = none; }, "'propagator given'", "'propagator not given'"},
                    {[](SearchOptions& o) { o.scheduler = [] { return median_rule(); }; }, "'scheduler stopping'", "'scheduler none'"},
                    {[](SearchOptions& o) { o.scheduler = PromotionOptions(); }, "'scheduler promotion'", "'scheduler none'"},
                    {[](SearchOptions& o) { o.scheduler = PopulationTrainingOptions(); }, "'scheduler population_training'", "'scheduler none'"},
                    {[](SearchOptions& o) { o.migration.probability = 0.5; }, "'migration.probability 0.5'", "'migration.probability 0.05'"},
                    {[](SearchOptions& o) { o.migration.copies = true; }, "'migration.copies true'", "'migration.copies false'"},
                    {[](SearchOptions& o) { o.migration.emigrant = Pick::worst; }, "'migration.emigrant worst'", "'migration.emigrant best'"},
                    {[](SearchOptions& o) { o.migration.replaced = Pick::uniform; }, "'migration.replaced uniform'", "'migration.replaced worst'"},
                    {[](SearchOptions& o) { o.migration.topology[1][0] = 0.5; }, "'migration.topology.1 [0.5, 0]'", "'migration.topology.1 [1, 0]'"},
                    {[](SearchOptions& o) { o.migration.topology.clear(); }, "nothing more", "'migration.topology.0 [0, 1]'"}});
}

TEST(DifferingOptions, OfPromotionsAreNamed) {
  using Options = PromotionOptions;
  const auto of = [](const auto& change) { return [change](SearchOptions& o) { change(std::get<Options>(o.scheduler)); }; };
  expect_all_named({.evaluations = 8, .scheduler = Options()},
                   {{of([](Options& o) { o.grace = 2; }), "'promotion.grace 2'", "'promotion.grace 1'"},
                    {of([](Options& o) { o.eta = 3; }), "'promotion.eta 3'", "'promotion.eta 4'"},
                    {of([](Options& o) { o.max_steps = 27; }), "'promotion.max_steps 27'", "'promotion.max_steps 1073741824'"}});
}

TEST(DifferingOptions, OfPopulationsAreNamed) {
  using Options = PopulationTrainingOptions;
  const auto of = [](const auto& change) { return [change](SearchOptions& o) { change(std::get<Options>(o.scheduler)); }; };
  expect_all_named({.evaluations = 8, .scheduler = Options()},
                   {{of([](Options& o) { o.interval = 2; }), "'population_training.interval 2'", "'population_training.interval 1'"},
                    {of([](Options& o) { o.max_steps = 27; }), "'population_training.max_steps 27'", "'population_training.max_steps 1073741824'"},
                    {of([](Options& o) { o.quantile = 0.5; }), "'population_training.quantile 0.5'", "'population_training.quantile 0.25'"},
                    {of([](Options& o) { o.resample = 0; }), "'population_training.resample 0'", "'population_training.resample 0.25'"},
                    {of([](Options& o) { o.up = 2; }), "'population_training.up 2'", "'population_training.up 1.2'"},
                    {of([](Options& o) { o.down = 0.5; }), "'population_training.down 0.5'", "'population_training.down 0.8'"},
                    {of([](Options& o) { o.frozen = {"x"}; }), "'population_training.frozen [\"x\"]'", "'population_training.frozen []'"}});
}

TEST(DifferingOptions, SpacesAndObjectivesAreNamed) {
  const SearchOptions options{.evaluations = 8};
  const int last = world().size() - 1;
  const bool odd = world().rank() == last;
  const std::string usual = "'parameter x: real, 0 to 1'";
  const auto expect_space_named = [&](const Space& space, const std::string& has, const std::string& where) {
    expect_named([&] { Search(world(), odd ? space : line(), objective, options); }, last, has, where);
    expect_named([&] { check_objective(world(), odd ? space : line(), objective); }, last, has, where);
  };
  expect_space_named({real("x", 0, 1.5)}, "'parameter x: real, 0 to 1.5'", usual);
  expect_space_named({real("x", 0, 1, Scale::linear, 0.25)}, "'parameter x: real, 0 to 1, step 0.25'", usual);
  expect_space_named({real("x", 0, 1).starting_at("0.5")}, "'parameter x: real, 0 to 1, starting at 0.5'", usual);
  expect_space_named({integer("x", 1, 8, log_scale)}, "'parameter x: integer, 1 to 8, logarithmic'", usual);
  expect_space_named({ordinal("x", {1, 2.5})}, "'parameter x: ordinal, values: 1 2.5'", usual);
  expect_space_named({categorical("x", {"a b", "c"})}, "'parameter x: categorical, values: a b, c'", usual);
  expect_space_named({real("x", 0, 1), ordinal("n", {1, 2})}, "'parameters: x, n'", "'parameters: x'");
  Space constrained = line();
  constrained.require("x is small", [](const Configuration& c) { return c.real("x") < 0.5; });
  expect_space_named(constrained, "'constraints: x is small'", "'constraints:'");
  Space starting = line();
  starting.start_at({{"x", "0.25"}});
  expect_space_named(starting, "'starts: 1'", "'starts: 0'");
  expect_named([&] { Search(world(), line(), odd ? Objective() : objective, options); }, last, "'no objective'", "'an objective'");
  expect_named([&] { check_objective(world(), line(), objective, {.seed = odd ? 1U : 0U}); }, last, "'seed 1'", "'seed 0'");
}

}  // namespace differing_options_test
}  // namespace tw::search
