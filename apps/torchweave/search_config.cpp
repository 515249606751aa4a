// SPDX-License-Identifier: Apache-2.0
#include "search_config.hpp"

#include <tw/base/concat.hpp>
#include <tw/evolution/curve_model.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <tw/evolution/stopping.hpp>

namespace tw::tool {
namespace {

using search::SearchOptions;
using search::WorkerContext;

std::vector<std::string> names_of_propagators() {
  std::vector<std::string> names;
  for (const search::NamedPropagator& each : search::named_propagators()) names.emplace_back(each.name);
  return names;
}

search::Scheduler scheduler_of(const StoppingOptions& stopping) {
  const search::HalvingOptions& halving = stopping.halving;
  const search::MedianOptions median{.grace = halving.grace, .min_trials = static_cast<size_t>(stopping.min_trials)};
  if (stopping.rule == "median") return [median] { return search::median_rule(median); };
  if (stopping.rule == "halving") return [halving] { return search::halving_rule(halving); };
  if (stopping.rule == "promotion") return search::PromotionOptions{halving};
  const search::CurveRuleOptions curves{
      .grace = halving.grace, .min_complete = static_cast<size_t>(stopping.min_complete), .probability = stopping.probability};
  if (stopping.rule == "learning_curve") return [curves] { return search::curve_rule(search::parametric_curves(), curves); };
  if (stopping.rule == "hyperband") return [brackets = stopping.brackets, halving] { return search::hyperband_rule(brackets, halving); };
  return search::RunToEnd();
}

void report_contradictions(Config& config, SearchOptions& options) {
  for (Problem problem : options.contradictions()) {
    problem.key = "search." + problem.key;
    config.report(problem);
  }
  if (!options.island_workers.empty()) options.islands = static_cast<int>(options.island_workers.size());
}

}  // namespace

void visit(StoppingOptions& stopping, OptionVisitor& visitor) {
  visitor.field("stopping", stopping.rule, {"none", "median", "halving", "hyperband", "promotion", "learning_curve"},
                {.meaning = "rule by which trials end early or pause"});
  const auto with = [](const std::vector<std::string>& rules) { return std::vector<Condition>{{"search.stopping", rules}}; };
  visitor.field("min_trials", stopping.min_trials, at_least(1),
                {.meaning = "other trials that must have reached a step before a trial can be stopped there", .applies_if = with({"median"})});
  visitor.field("min_complete", stopping.min_complete, at_least(1),
                {.meaning = "complete trials before any trial is stopped", .applies_if = with({"learning_curve"})});
  visitor.field("probability", stopping.probability, {.least = 0, .most = 1},
                {.meaning = "probability of becoming the best, below which a trial is stopped", .applies_if = with({"learning_curve"})});
  visitor.field("brackets", stopping.brackets, at_least(1),
                {.meaning = "number of brackets; each has its first rung later than the one before", .applies_if = with({"hyperband"})});
  const std::vector<std::string> rungs{"halving", "hyperband", "promotion"};
  visitor.field("grace", stopping.halving.grace, at_least(1),
                {.meaning = "steps that every trial may run", .unit = "steps", .applies_if = {{"search.stopping", {"none"}, /*negated=*/true}}});
  visitor.field("eta", stopping.halving.eta, at_least(2, 1024),
                {.meaning = "reduction factor: 1/eta of the trials pass each rung, at the steps grace eta^k", .applies_if = with(rungs)});
  visitor.field(
      "max_steps", stopping.halving.max_steps, at_least(1),
      {.meaning = "steps from which on there are no rungs; with promotion, a trial ends there", .unit = "steps", .applies_if = with(rungs)});
}

void visit(SearchConfig& config, OptionVisitor& visitor) {
  visit_run(config.options, visitor);
  visitor.field("propagator", config.propagator, names_of_propagators(), {.meaning = "how configurations are proposed"});
  visit(config.stopping, visitor);
  visitor.group("population_training", config.population_training);
  visitor.group("migration", config.options.migration);
  if (!config.trains) {
    visitor.field("constraints", config.constraints,
                  {.meaning = "values that programs report; a configuration is allowed if each is at most 0; only for programs"});
    return;
  }
  visitor.field("test", config.test,
                {.meaning = "train the best configuration again at the end, on the ranks of a worker, and evaluate it on the test set, which no "
                            "trial uses; only for trainings"});
  visitor.field("base", config.base, {.meaning = "file of a training configuration, relative to the folder of this file; only for trainings"});
}

SearchConfig read_search_config(Config& config, const std::filesystem::path& journal, bool trains) {
  SearchConfig read;
  read.trains = trains;
  read.options.journal = journal;
  // All members of a population begin before the first one has ended, so there are no results to propose from.
  if (!config.keys("search.population_training.").empty()) read.propagator = "sobol";
  ConfigBinder(config).group("search", read);
  read.parameters = read_parameters(config);
  read.starts = read_starts(config, read.parameters);
  read.options.scheduler = scheduler_of(read.stopping);
  if (read.population_training) {
    if (read.stopping.rule != "none") config.report({"search.stopping", "cannot be combined with search.population_training", "\"none\""});
    read.options.scheduler = *read.population_training;
  }
  for (const search::NamedPropagator& each : search::named_propagators()) {
    if (each.name != read.propagator || read.propagator == "automatic") continue;  // the search has its own default
    read.options.propagator = [make = each.make](const WorkerContext& context) {
      return make(context.space, context.evaluations, context.seed, context.worker, context.workers);
    };
  }
  report_contradictions(config, read.options);
  config.note_renamed("search.figure", "search.objectives");
  config.note_renamed("search.least_trials", "search.min_trials");
  config.note_renamed("search.most", "search.max_steps");
  config.note_renamed("search.population_training.most", "search.population_training.max_steps");
  config.note_renamed("search.population_training.kept", "search.population_training.frozen");
  config.finish();
  read.options.progress = true;
  return read;
}

std::string list_of_propagators() {
  std::string text;
  for (const search::NamedPropagator& each : search::named_propagators()) text += concat("                      ", each.name, ": ", each.about, '\n');
  return text;
}

}  // namespace tw::tool
