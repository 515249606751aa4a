// SPDX-License-Identifier: Apache-2.0
// What is there or not, or how much of it, comes before what is in it: a rank that lacks something would else be said to have the next line instead.
#include "option_lines.hpp"

#include <tw/base/concat.hpp>
#include <tw/base/exact_text.hpp>

namespace tw::search {
namespace {

std::string text_of_list(const std::string& name, const std::vector<std::string>& list) {
  std::string text = name + ':';
  for (size_t i = 0; i < list.size(); ++i) text += (i == 0 ? " " : ", ") + list[i];
  return text;
}

std::string text_of_numbers(const std::string& name, const std::vector<double>& numbers) {
  std::string text = name + ':';
  for (const double each : numbers) text += ' ' + exact_text(each);
  return text;
}

const char* name_of(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::real: return "real";
    case Parameter::Kind::integer: return "integer";
    case Parameter::Kind::ordinal: return "ordinal";
    case Parameter::Kind::categorical: return "categorical";
  }
  return "?";
}

const char* name_of(Pick pick) {
  switch (pick) {
    case Pick::best: return "best";
    case Pick::worst: return "worst";
    case Pick::uniform: return "uniform";
  }
  return "?";
}

std::string line_of(const Parameter& p) {
  std::string text = concat("parameter ", p.name, ": ", name_of(p.kind));
  if (p.kind == Parameter::Kind::ordinal) text += text_of_numbers(", values", p.numbers);
  if (p.kind == Parameter::Kind::categorical) text += text_of_list(", values", p.choices);
  if (!p.has_choices()) text += concat(", ", exact_text(p.low), " to ", exact_text(p.high), p.scale == Scale::logarithmic ? ", logarithmic" : "");
  if (p.step > 0) text += ", step " + exact_text(p.step);
  if (!p.parent.empty()) text += text_of_list(", when " + p.parent, p.allowed);
  return p.initial.empty() ? text : text + ", starting at " + p.initial;
}

void append(std::vector<std::string>& lines, const MigrationOptions& migration) {
  lines.push_back("migration.probability " + exact_text(migration.probability));
  lines.push_back(concat("migration.copies ", migration.copies));
  lines.push_back(concat("migration.emigrant ", name_of(migration.emigrant)));
  lines.push_back(concat("migration.replaced ", name_of(migration.replaced)));
  for (size_t island = 0; island < migration.topology.size(); ++island) {
    lines.push_back(text_of_numbers(concat("migration.topology of island ", island), migration.topology[island]));
  }
}

void append(std::vector<std::string>& lines, const HalvingOptions& promotion) {
  lines.push_back(concat("promotion.grace ", promotion.grace));
  lines.push_back(concat("promotion.eta ", promotion.eta));
  lines.push_back(concat("promotion.most ", promotion.most));
}

void append(std::vector<std::string>& lines, const PopulationTrainingOptions& training) {
  lines.push_back(concat("population_training.interval ", training.interval));
  lines.push_back(concat("population_training.most ", training.most));
  lines.push_back("population_training.quantile " + exact_text(training.quantile));
  lines.push_back("population_training.resample " + exact_text(training.resample));
  lines.push_back("population_training.up " + exact_text(training.up));
  lines.push_back("population_training.down " + exact_text(training.down));
  lines.push_back(text_of_list("population_training.kept", training.kept));
}

}  // namespace

std::vector<std::string> lines_of(const Space& space) {
  std::vector<std::string> names;
  for (const Parameter& each : space.parameters()) names.push_back(each.name);
  std::vector<std::string> lines{text_of_list("parameters", names), text_of_list("constraints", space.constraints())};
  for (const Parameter& each : space.parameters()) lines.push_back(line_of(each));
  return lines;
}

std::vector<std::string> lines_of(const SearchOptions& options) {
  const auto whether = [](const char* name, bool given) { return concat(name, given ? " given" : " not given"); };
  std::vector<std::string> lines{concat("islands ", options.islands),
                                 text_of_numbers("island_workers", {options.island_workers.begin(), options.island_workers.end()}),
                                 concat("ranks_per_worker ", options.ranks_per_worker),
                                 concat("evaluations ", options.evaluations),
                                 "seconds " + exact_text(options.seconds),
                                 "target " + exact_text(options.target),
                                 concat("seed ", options.seed),
                                 "journal " + options.journal.string(),
                                 concat("attempts ", options.attempts),
                                 concat("progress ", options.progress),
                                 whether("propagator", static_cast<bool>(options.propagator)),
                                 whether("stopping", static_cast<bool>(options.stopping)),
                                 whether("promotion", options.promotion.has_value()),
                                 whether("population_training", options.population_training.has_value())};
  if (options.promotion) append(lines, *options.promotion);
  if (options.population_training) append(lines, *options.population_training);
  append(lines, options.migration);
  return lines;
}

}  // namespace tw::search
