// SPDX-License-Identifier: Apache-2.0
#include "search_config.hpp"

#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/nelder_mead.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/stopping.hpp>
#include <tw/evolution/swarm.hpp>

#include "config_reader.hpp"

namespace tw::tool {
namespace {

using search::Propagator;
using search::SearchOptions;
using search::Seat;

struct NamedPropagator {
  const char* name;
  const char* about;
  std::unique_ptr<Propagator> (*make)(const Seat& seat);
};

/// All that a search can be run with, the default first.
constexpr NamedPropagator propagators[] = {
    {"automatic", "what suits space and budget",
     [](const Seat& seat) { return search::automatic(seat.space, seat.evaluations, seat.seed, seat.worker, seat.workers); }},
    {"genetic", "selection, crossover and mutation, after a fifth of the evaluations",
     [](const Seat& seat) -> std::unique_ptr<Propagator> {
       return std::make_unique<search::Breeder>(seat.space, search::genetic_within(seat.evaluations));
     }},
    {"cma_es", "CMA-ES with restarts",
     [](const Seat& seat) -> std::unique_ptr<Propagator> { return std::make_unique<search::CmaEs>(seat.space, search::CmaOptions{}, seat.seed); }},
    {"swarm", "a particle swarm",
     [](const Seat& seat) -> std::unique_ptr<Propagator> { return std::make_unique<search::Swarm>(seat.space, search::canonical_swarm()); }},
    {"nelder_mead", "a simplex for each worker",
     [](const Seat& seat) -> std::unique_ptr<Propagator> {
       const uint64_t seed = seat.seed * static_cast<uint64_t>(seat.workers) + static_cast<uint64_t>(seat.worker);
       return std::make_unique<search::NelderMead>(seat.space, search::NelderMeadOptions{}, seed);
     }},
    {"sobol", "an even cover of the space",
     [](const Seat& seat) -> std::unique_ptr<Propagator> {
       return std::make_unique<search::Sobol>(seat.space, seat.seed, search::Share{.first = seat.worker, .stride = seat.workers});
     }},
    {"random", "uniform, in each parameter's scale",
     [](const Seat& seat) -> std::unique_ptr<Propagator> { return std::make_unique<search::Breeder>(seat.space, search::uniform_child()); }},
};

void read_propagator(Reader& reader, SearchOptions& options) {
  std::vector<std::string> names;
  for (const NamedPropagator& each : propagators) names.emplace_back(each.name);
  std::string chosen = names.front();
  reader.name("search.propagator", chosen, names);
  for (const NamedPropagator& each : propagators) {
    if (chosen == each.name) options.propagator = each.make;
  }
}

void read_budget(Reader& reader, SearchOptions& options) {
  reader.at_least("search.evaluations", options.evaluations, 0);
  reader.positive("search.seconds", options.seconds);
  reader.take("search.target", options.target);
  if (options.evaluations == 0 && !std::isfinite(options.seconds)) {
    reader.refuse("search.evaluations", "or search.seconds must be given, or the search would never end", "100");
  }
}

void read_workers(Reader& reader, SearchOptions& options) {
  int64_t islands = options.islands;
  int64_t ranks_per_worker = options.ranks_per_worker;
  int64_t attempts = options.attempts;
  int64_t seed = 0;
  reader.at_least("search.islands", islands, 1);
  reader.at_least("search.ranks_per_worker", ranks_per_worker, 1);
  reader.at_least("search.attempts", attempts, 1);
  reader.at_least("search.seed", seed, 0);
  options.islands = static_cast<int>(islands);
  options.ranks_per_worker = static_cast<int>(ranks_per_worker);
  options.attempts = static_cast<int>(attempts);
  options.seed = static_cast<uint64_t>(seed);
}

void read_migration(Reader& reader, search::MigrationOptions& migration) {
  using search::Pick;
  const std::vector<std::pair<std::string, Pick>> choices{{"best", Pick::best}, {"worst", Pick::worst}, {"uniform", Pick::uniform}};
  reader.in_range("search.migration.probability", migration.probability, 0);
  if (migration.probability > 1) reader.refuse("search.migration.probability", concat("must be at most 1, got ", migration.probability), "1");
  reader.take("search.migration.copies", migration.copies);
  reader.choice("search.migration.emigrant", migration.emigrant, choices);
  reader.choice("search.migration.replaced", migration.replaced, choices);
}

void read_stopping(Reader& reader, SearchOptions& options) {
  std::string rule = "none";
  search::HalvingOptions halving;
  search::MedianOptions median;
  int64_t brackets = 3;
  auto least_trials = static_cast<int64_t>(median.least_trials);
  reader.name("search.stopping", rule, {"none", "median", "halving", "hyperband"});
  reader.at_least("search.grace", halving.grace, 1);
  reader.at_least("search.eta", halving.eta, 2);
  reader.at_least("search.most", halving.most, 1);
  reader.at_least("search.brackets", brackets, 1);
  reader.at_least("search.least_trials", least_trials, 1);
  median.grace = halving.grace;
  median.least_trials = static_cast<size_t>(least_trials);
  if (rule == "median") options.stopping = [median] { return search::median_rule(median); };
  if (rule == "halving") options.stopping = [halving] { return search::halving_rule(halving); };
  if (rule == "hyperband") options.stopping = [halving, brackets] { return search::hyperband_rule(static_cast<int>(brackets), halving); };
}

}  // namespace

SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains) {
  SearchConfig read;
  Reader reader(config);
  read_budget(reader, read.options);
  read_workers(reader, read.options);
  read.options.journal = journal;
  reader.take("search.journal", read.options.journal);
  read_propagator(reader, read.options);
  read_stopping(reader, read.options);
  read_migration(reader, read.options.migration);
  if (trains) {
    reader.take("search.base", read.base);
    reader.name("search.figure", read.figure, {"", "accuracy", "loss", "mae"});
  }
  read.parameters = read_parameters(config);
  config.finish();
  read.options.progress = true;
  return read;
}

std::string list_of_propagators() {
  std::string text;
  for (const NamedPropagator& each : propagators) text += concat("                      ", each.name, ": ", each.about, '\n');
  return text;
}

}  // namespace tw::tool
