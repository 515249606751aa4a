// SPDX-License-Identifier: Apache-2.0
#include <tw/search/options.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::search {
namespace {

constexpr double max_workers = 1000000;

/// The problem of an island's row of migration.topology, if any.
std::optional<Problem> problem_of_row(const std::vector<double>& row, size_t island, size_t islands) {
  const std::string key = concat("migration.topology.", island);
  if (island >= islands) return Problem{key, concat("is none of the ", islands, " islands, which are numbered from 0"), "migration.topology.0"};
  if (row.size() == islands && row[island] == 0) return std::nullopt;
  std::string others_alike;
  for (size_t other = 0; other < islands; ++other) others_alike += concat(other == 0 ? "[" : ", ", other == island ? 0 : 1);
  return Problem{key, concat("must be ", islands, " numbers of at least 0, one for each island, with 0 for itself"), others_alike + ']'};
}

}  // namespace

void visit(MigrationOptions& migration, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Pick>> picks{{"best", Pick::best}, {"worst", Pick::worst}, {"uniform", Pick::uniform}};
  visitor.field("probability", migration.probability, {.least = 0, .most = 1},
                {.meaning = "probability that a worker sends an individual to another island after a trial"});
  visitor.field("copies", migration.copies,
                {.meaning = "whether a copy is sent and replaces another individual there; otherwise the individual moves"});
  visitor.field("emigrant", migration.emigrant, picks, {.meaning = "which individual is sent"});
  visitor.field("replaced", migration.replaced, picks,
                {.meaning = "which individual a copy replaces", .applies_if = {{"search.migration.copies", {"true"}}}});
  visitor.field(
      "topology", migration.topology, {.least = 0, .excludes_most = true},
      {.meaning = "weights, in any unit, of all islands as destinations from island 0, 1, ..., with 0 for itself; empty: all others alike"});
}

void visit_run(SearchOptions& options, OptionVisitor& visitor) {
  visitor.field("islands", options.islands, at_least(1, max_workers),
                {.meaning = "number of islands, among which workers are divided as evenly as possible; the workers of an island share all results"});
  visitor.field("island_workers", options.island_workers, at_least(1, max_workers),
                {.meaning = "number of workers of each island; empty: as even as possible"});
  visitor.field("ranks_per_worker", options.ranks_per_worker, at_least(1, max_workers), {.meaning = "number of ranks on which each trial runs"});
  visitor.field("worker_ranks", options.worker_ranks, at_least(1, max_workers),
                {.meaning = "number of ranks of each worker, in rank order; empty: ranks_per_worker each"});
  visitor.field("evaluations", options.evaluations, at_least(0),
                {.meaning = "total over all workers and earlier runs, after which the search ends; 0: no limit"});
  visitor.field("seconds", options.seconds, {.least = 0, .excludes_least = true}, {.meaning = "seconds of this run after which no trial begins"});
  visitor.field("target", options.target, {}, {.meaning = "a loss that is good enough: the search ends when a trial reaches it"});
  visitor.field("objectives", options.objectives, {.meaning = "names of the values that trials return, all minimized; empty: a loss"});
  visitor.field("seed", options.seed, at_least(0, any_count), {.meaning = "seed of all random numbers"});
  visitor.field("journal", options.journal, {.meaning = "folder of the journal; a search that it holds is continued; empty: none"});
  visitor.field("warm_start", options.warm_start,
                {.meaning = "folder of another search, or a CSV file, with results that this search begins with; empty: none"});
  visitor.field("max_attempts", options.max_attempts, at_least(1, max_workers),
                {.meaning = "number of process losses after which a trial has failed, if no other trial can be the cause"});
  visitor.field("allow_duplicates", options.allow_duplicates,
                {.meaning = "whether configurations may be repeated, for noisy losses; otherwise none is repeated while others are left"});
}

void visit(SearchOptions& options, OptionVisitor& visitor) {
  visit_run(options, visitor);
  visitor.field("progress", options.progress, {.meaning = "whether rank 0 shows the progress of this run"});
  visitor.presence("propagator", static_cast<bool>(options.propagator));
  const std::vector<std::string> schedulers{"none", "stopping", "promotion", "population_training"};
  std::string chosen = schedulers.at(options.scheduler.index());
  visitor.field("scheduler", chosen, schedulers, {.meaning = "whether trials stop early, pause until they are promoted, or train as a population"});
  if (auto* promotion = std::get_if<PromotionOptions>(&options.scheduler)) visitor.group("promotion", *promotion);
  if (auto* training = std::get_if<PopulationTrainingOptions>(&options.scheduler)) visitor.group("population_training", *training);
  visitor.group("migration", options.migration);
}

std::vector<Problem> SearchOptions::contradictions() const {
  std::vector<Problem> problems;
  if (evaluations == 0 && !std::isfinite(seconds)) {
    problems.push_back({"evaluations", "or seconds must be given, or the search would never end", "100"});
  }
  const size_t count = island_workers.empty() ? static_cast<size_t>(std::max(islands, 1)) : island_workers.size();
  if (islands != 1 && static_cast<size_t>(islands) != count) {
    problems.push_back({"islands", concat("is ", islands, ", but the length of island_workers is ", count), concat(count)});
  }
  if (ranks_per_worker != 1 && !worker_ranks.empty()) {
    problems.push_back({"ranks_per_worker", concat("is ", ranks_per_worker, ", but worker_ranks is set, too: set only one of them"), "1"});
  }
  if (std::holds_alternative<PopulationTrainingOptions>(scheduler) && evaluations == 0) {
    problems.push_back({"evaluations", "must be set with population_training: it is the number of members", "8"});
  }
  if (objectives.size() > 1 && !std::holds_alternative<RunToEnd>(scheduler)) {
    problems.push_back({"objectives", "must be at most one with stopping, promotion or population_training, which compare a single number", "[]"});
  }
  if (objectives.size() > 1 && std::isfinite(target)) problems.push_back({"target", "needs a single loss, but there are several objectives", "-inf"});
  if (const std::set<std::string> names(objectives.begin(), objectives.end()); names.size() < objectives.size() || names.contains("")) {
    problems.push_back({"objectives", "must have different names, none of them empty", "[\"error\", \"seconds\"]"});
  }
  for (size_t island = 0; island < migration.topology.size(); ++island) {
    if (migration.topology[island].empty()) continue;
    if (auto problem = problem_of_row(migration.topology[island], island, count)) problems.push_back(*std::move(problem));
  }
  return problems;
}

void SearchOptions::validate(int ranks) const {
  expect_none(out_of_bounds(*this));
  if (const auto* make = std::get_if<StoppingFactory>(&scheduler))
    TW_EXPECTS(*make, "scheduler is an empty function; expected one that makes a stopping rule");
  if (const auto* promotion = std::get_if<PromotionOptions>(&scheduler)) promotion->validate();
  expect_none(contradictions());
  TW_EXPECTS(ranks % ranks_per_worker == 0, "ranks_per_worker is ", ranks_per_worker, ", which does not divide the ", ranks, " ranks");
  TW_EXPECTS(worker_ranks.empty() || std::accumulate(worker_ranks.begin(), worker_ranks.end(), 0) == ranks, "worker_ranks must add up to ", ranks,
             ", the number of ranks");
  const int workers = worker_ranks.empty() ? ranks / ranks_per_worker : static_cast<int>(worker_ranks.size());
  TW_EXPECTS(islands <= workers, "islands must be 1 to ", workers, ", the number of workers, got ", islands);
  TW_EXPECTS(island_workers.empty() || std::accumulate(island_workers.begin(), island_workers.end(), 0) == workers, "island_workers must add up to ",
             workers, ", the number of workers");
}

}  // namespace tw::search
