// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>

#include "cells.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr int largest_matrix = 24;
constexpr size_t max_routes = 100;

using Route = std::pair<int, int>;

std::string matrix(const std::map<Route, int64_t>& counts, int islands) {
  std::vector<std::string> head{"from \\ to"};
  for (int to = 0; to < islands; ++to) head.push_back(concat(to));
  std::string rows = row(head, "th");
  for (int from = 0; from < islands; ++from) {
    std::vector<std::string> cells{concat(from)};
    for (int to = 0; to < islands; ++to) {
      const auto found = counts.find({from, to});
      cells.push_back(found != counts.end() ? concat(found->second) : from == to ? "" : "0");
    }
    rows += row(cells);
  }
  return "<div class=\"wide\"><table class=\"matrix\">" + rows + "</table></div>\n";
}

std::string busiest_routes(const std::map<Route, int64_t>& counts) {
  std::vector<std::pair<Route, int64_t>> routes(counts.begin(), counts.end());
  std::ranges::stable_sort(routes, std::ranges::greater(), &std::pair<Route, int64_t>::second);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(max_routes, routes.size()); ++i) {
    rows.push_back({concat(routes[i].first.first), concat(routes[i].first.second), concat(routes[i].second)});
  }
  return element("p", "Routes: " + share_text(rows.size(), routes.size()) + ", sorted by number of individuals.") +
         table({"from", "to", "individuals"}, rows);
}

}  // namespace

std::string islands_section(const Findings& findings) {
  const Ledger& ledger = findings.ledger;
  if (ledger.islands < 2) return "";
  struct IslandRow {
    int64_t trials = 0;
    const Individual* best = nullptr;
    int64_t arrived = 0;
    int64_t left = 0;
  };
  std::vector<IslandRow> islands(static_cast<size_t>(ledger.islands));
  for (const LedgerEntry& entry : ledger.trials) ++islands[static_cast<size_t>(entry.individual.island)].trials;
  for (const LedgerEntry* entry : findings.ranked) {
    const Individual*& best = islands[static_cast<size_t>(entry->individual.island)].best;
    if (best == nullptr) best = &entry->individual;
  }
  std::map<Route, int64_t> counts;
  for (const Migration& each : ledger.migrations) {
    ++counts[{each.from, each.to}];
    ++islands[static_cast<size_t>(each.from)].left;
    ++islands[static_cast<size_t>(each.to)].arrived;
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < islands.size(); ++i) {
    const IslandRow& each = islands[i];
    rows.push_back({concat(i), concat(each.trials), each.best != nullptr ? cell_text(each.best->loss) : "",
                    each.best != nullptr ? concat(each.best->trial) : "", concat(each.arrived), concat(each.left)});
  }
  std::string html = element("h2", "Islands") + table({"island", "trials proposed", "best loss", "best trial", "arrived", "left"}, rows);
  html += element("p", concat("Individuals that moved or were copied from one island to another: ", ledger.migrations.size(), " in total."));
  if (ledger.migrations.empty()) return html;
  return html + (ledger.islands <= largest_matrix ? matrix(counts, ledger.islands) : busiest_routes(counts));
}

}  // namespace tw::search
