// SPDX-License-Identifier: Apache-2.0
#include "search_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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
  if (options.population_training) chosen = "sobol";  // all members begin before one has ended
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

constexpr int64_t most_workers = 1000000;

/// Of workers, or ranks, or attempts: a number of at least 1.
void read_count(Reader& reader, const std::string& key, int& field) {
  int64_t number = field;
  reader.at_least(key, number, 1, most_workers);
  field = static_cast<int>(std::clamp<int64_t>(number, 1, most_workers));
}

void read_island_workers(Reader& reader, SearchOptions& options) {
  std::vector<double> workers;
  reader.take("search.island_workers", workers);
  for (const double each : workers) {
    if (!(each >= 1 && each <= most_workers) || each != std::floor(each)) {
      return reader.refuse("search.island_workers", concat("must be whole numbers from 1 to ", most_workers, ", got ", each), "1");
    }
    options.island_workers.push_back(static_cast<int>(each));
  }
  const auto islands = static_cast<int>(workers.size());
  if (islands == 0) return;
  if (options.islands != 1 && options.islands != islands) {
    reader.refuse("search.islands", concat("is ", options.islands, ", but search.island_workers are those of ", islands), concat(islands));
  }
  options.islands = islands;
}

void read_workers(Reader& reader, SearchOptions& options) {
  read_count(reader, "search.islands", options.islands);
  read_island_workers(reader, options);
  read_count(reader, "search.ranks_per_worker", options.ranks_per_worker);
  read_count(reader, "search.attempts", options.attempts);
  int64_t seed = 0;
  reader.at_least("search.seed", seed, 0, std::numeric_limits<int64_t>::max());
  options.seed = static_cast<uint64_t>(seed);
}

/// A list for each island, under search.migration.topology.ISLAND; one that has none sends to all others alike.
void read_topology(Config& config, Reader& reader, SearchOptions& options) {
  const std::string table = "search.migration.topology.";
  const auto islands = static_cast<size_t>(options.islands);
  const auto others_alike = [&](size_t island) {
    std::vector<double> row(islands, 1);
    row[island] = 0;
    return row;
  };
  auto& topology = options.migration.topology;
  for (const std::string& key : config.keys(table)) {
    for (size_t island = topology.size(); island < islands; ++island) topology.push_back(others_alike(island));
    size_t island = 0;
    while (island < islands && key != concat(table, island)) ++island;
    std::vector<double> row;
    config.bind(key, row);
    if (island == islands) {
      reader.refuse(key, concat("is none of the ", islands, " islands, which are numbered from 0"), table + "0");
    } else if (row.size() != islands || row[island] != 0 || std::ranges::any_of(row, [](double each) { return !(each >= 0); })) {
      std::string nearest;
      for (const double each : others_alike(island)) nearest += concat(nearest.empty() ? "[" : ", ", each);
      reader.refuse(key, concat("must be ", islands, " numbers of at least 0, one for each island, with 0 for itself"), nearest + ']');
    } else {
      topology[island] = row;
    }
  }
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
  reader.name("search.stopping", rule, {"none", "median", "halving", "hyperband", "promotion"});
  reader.at_least("search.grace", halving.grace, 1);
  reader.at_least("search.eta", halving.eta, 2);
  reader.at_least("search.most", halving.most, 1);
  reader.at_least("search.brackets", brackets, 1);
  reader.at_least("search.least_trials", least_trials, 1);
  median.grace = halving.grace;
  median.least_trials = static_cast<size_t>(least_trials);
  if (rule == "median") options.stopping = [median] { return search::median_rule(median); };
  if (rule == "halving") options.stopping = [halving] { return search::halving_rule(halving); };
  if (rule == "promotion") options.promotion = halving;
  if (rule == "hyperband") options.stopping = [halving, brackets] { return search::hyperband_rule(static_cast<int>(brackets), halving); };
}

void read_population_training(Config& config, Reader& reader, SearchOptions& options) {
  const std::string table = "search.population_training.";
  if (config.keys(table).empty()) return;
  search::PopulationTrainingOptions population;
  reader.at_least(table + "interval", population.interval, 1);
  reader.positive(table + "quantile", population.quantile);
  if (population.quantile > 0.5) reader.refuse(table + "quantile", concat("must be at most 0.5, got ", population.quantile), "0.5");
  reader.in_range(table + "resample", population.resample, 0);
  if (population.resample > 1) reader.refuse(table + "resample", concat("must be at most 1, got ", population.resample), "1");
  reader.in_range(table + "up", population.up, 1);
  reader.positive(table + "down", population.down);
  if (population.down > 1) reader.refuse(table + "down", concat("must be at most 1, got ", population.down), "1");
  reader.take(table + "kept", population.kept);
  if (options.stopping || options.promotion) reader.refuse("search.stopping", "cannot be had with search.population_training", "\"none\"");
  if (options.evaluations == 0) reader.refuse("search.evaluations", "must be given with search.population_training: the number of members", "8");
  options.population_training = population;
}

}  // namespace

SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains) {
  SearchConfig read;
  Reader reader(config);
  read_budget(reader, read.options);
  read_workers(reader, read.options);
  read.options.journal = journal;
  reader.take("search.journal", read.options.journal);
  read_stopping(reader, read.options);
  read_population_training(config, reader, read.options);
  read_propagator(reader, read.options);
  read_migration(reader, read.options.migration);
  read_topology(config, reader, read.options);
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
