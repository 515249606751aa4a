// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/evolution/configuration.hpp>

#include "cells.hpp"
#include "finite_text.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr size_t max_messages = 10;
constexpr size_t best_shown = 10;

std::string date_text(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &fields)};
}

std::string range_text(const Parameter& parameter) {
  if (parameter.has_choices()) {
    return std::accumulate(parameter.choices.begin(), parameter.choices.end(), std::string(),
                           [](const std::string& all, const std::string& each) { return all.empty() ? each : all + ", " + each; });
  }
  std::string text = brief_text(parameter.low) + " to " + brief_text(parameter.high);
  if (parameter.kind == Parameter::Kind::integer) text += ", whole";
  if (parameter.step > 0) text += ", steps of " + brief_text(parameter.step);
  if (parameter.scale == log_scale) text += ", logarithmic";
  return text;
}

std::string condition_text(const Parameter& parameter) {
  if (parameter.parent.empty()) return "";
  return parameter.parent + " is " + joined(parameter.allowed, " or ");
}

std::string span_text(const Findings& findings) {
  const Ledger& ledger = findings.ledger;
  const double begin = std::ranges::min(ledger.trials, {}, &LedgerEntry::begin).begin;
  std::string text = concat("Began ", date_text(begin), "; ", duration_text(findings.clock.total()), " with trials in flight");
  if (findings.clock.breaks() > 0) {
    text += concat(", not counting ", findings.clock.breaks(), findings.clock.breaks() == 1 ? " break" : " breaks", " between runs (",
                   duration_text(findings.clock.left_out()), "), which the charts leave out");
  }
  text += concat(". Workers: ", ledger.workers, ", islands: ", ledger.islands, ledger.epochs > 1 ? concat(", layouts: ", ledger.epochs) : "", ".");
  return text;
}

}  // namespace

std::string summary_section(const Findings& findings) {
  std::string html = element("h1", "Search");
  if (findings.ledger.trials.empty()) return html + element("p", "No trial has begun.");
  html += element("p", escaped(span_text(findings)));
  if (!findings.ledger.propagator_reason.empty())
    html += element("p", escaped("Configurations are proposed by " + findings.ledger.propagator_reason + "."));
  if (!findings.ranked.empty()) {
    const Individual& best = findings.ranked.front()->individual;
    html += element("p", escaped(concat("Best: loss ", finite_text(best.loss), ", trial ", best.trial, ": ",
                                        Configuration(findings.space, best.values).describe())));
  }
  std::map<TrialState, int64_t> counts;
  for (const LedgerEntry& entry : findings.ledger.trials) ++counts[entry.individual.state];
  std::vector<std::vector<std::string>> rows;
  for (const TrialState state : states) rows.push_back({state_text(state), concat(counts[state])});
  html += table({"state", "trials"}, rows);
  rows.clear();
  for (const Parameter& each : findings.space.parameters()) rows.push_back({each.name, range_text(each), condition_text(each)});
  return html + element("h2", "Space") + table({"parameter", "values", "exists if"}, rows);
}

std::string best_section(const Findings& findings) {
  if (findings.ranked.empty()) return "";
  std::vector<std::string> head{"trial", "loss", "state", "island", "seconds"};
  for (const Parameter& each : findings.space.parameters()) head.push_back(each.name);
  std::vector<std::vector<std::string>> rows;
  for (size_t rank = 0; rank < std::min(best_shown, findings.ranked.size()); ++rank) {
    const Individual& each = findings.ranked[rank]->individual;
    rows.push_back({concat(each.trial), cell_text(each.loss), state_text(each.state), concat(each.island), brief_text(each.seconds)});
    append_cells(rows.back(), findings.space, each.values);
  }
  return element("h2", concat("The best ", rows.size())) + table(head, rows);
}

std::string failures_section(const Findings& findings) {
  struct Failure {
    const LedgerEntry* first;
    int64_t count;
  };
  std::vector<Failure> failures;
  std::map<std::string, size_t> index;
  for (const LedgerEntry* entry : findings.ended) {
    if (entry->individual.has_comparable_loss()) continue;
    const auto [at, is_new] = index.try_emplace(entry->message, failures.size());
    if (is_new) failures.push_back({entry, 0});
    ++failures[at->second].count;
  }
  if (failures.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(max_messages, failures.size()); ++i) {
    const Failure& each = failures[i];
    rows.push_back({concat(each.first->individual.trial), state_text(each.first->individual.state), concat(each.count), each.first->message});
  }
  return element("h2", "First failures") +
         element("p", "Different messages: " + share_text(rows.size(), failures.size()) + ", in the order of their first occurrence.") +
         table({"first trial", "state", "times", "message"}, rows);
}

}  // namespace tw::search
