// SPDX-License-Identifier: Apache-2.0
#include "known_results.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <tw/base/error.hpp>
#include <tw/search/ledger.hpp>

#include "description.hpp"
#include "table.hpp"

namespace tw::search {
namespace {

/// A migrant's, so that no propagator takes it for a proposal of its own.
constexpr Tag from_elsewhere{.run = -2, .generation = 0, .index = -1};

/// The column that is called KIND.NAME, or NAME; head.size(): there is none.
size_t column_of(const TextRow& head, const std::string& kind, const std::string& name) {
  const auto is_it = [&](const std::string& column) { return column == name || column == kind + name; };
  return static_cast<size_t>(std::ranges::find_if(head, is_it) - head.begin());
}

double number_in(const std::string& text) {
  double number = std::numeric_limits<double>::quiet_NaN();
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ptr == text.data() + text.size() ? number : std::numeric_limits<double>::quiet_NaN();
}

bool has_result(std::string state) {
  std::ranges::transform(state, state.begin(), [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return state.empty() || state == "complete" || state == "pruned";
}

/// Of an individual, by the names that its search gave its objectives.
std::vector<double> losses_of(const Individual& individual, const ObjectiveNames& own, const ObjectiveNames& wanted) {
  if (wanted.size() < 2) return {individual.loss};
  std::vector<double> losses;
  for (const std::string& name : wanted) {
    const auto at = static_cast<size_t>(std::ranges::find(own, name) - own.begin());
    const auto all = individual.all_objectives();
    losses.push_back(at < all.size() ? all[at] : std::numeric_limits<double>::quiet_NaN());
  }
  return losses;
}

std::vector<NamedResult> results_in_journal(const std::filesystem::path& folder, const Space& space, const ObjectiveNames& objectives) {
  const Space own = read_description(folder).space;
  const Ledger ledger = read_ledger(folder, own);
  std::vector<NamedResult> results;
  for (const LedgerEntry& each : ledger.trials) {
    if (!each.individual.counts()) continue;
    NamedTexts texts = named_texts(own, each.individual.values);
    std::erase_if(texts,
                  [&](const auto& text) { return std::ranges::find(space.parameters(), text.first, &Parameter::name) == space.parameters().end(); });
    results.push_back({std::move(texts), losses_of(each.individual, ledger.objectives, objectives)});
  }
  return results;
}

}  // namespace

std::vector<NamedResult> results_in_csv(const std::string& csv, const Space& space, const ObjectiveNames& objectives) {
  const std::vector<TextRow> rows = rows_of_csv(csv);
  const TextRow head = rows.empty() ? TextRow() : rows[0];
  std::vector<size_t> losses;
  for (const std::string& name : objectives.size() > 1 ? objectives : ObjectiveNames{"loss"}) {
    losses.push_back(column_of(head, "objective.", name));
    if (losses.back() == head.size()) throw Error("a table of results has a column '" + name + "'");
  }
  const size_t state = column_of(head, "", "state");
  std::vector<NamedResult> results;
  for (size_t i = 1; i < rows.size(); ++i) {
    TextRow row = rows[i];
    row.resize(head.size() + 1);  // the last one is empty, for what has no column
    if (!has_result(row[state])) continue;
    NamedResult result;
    for (const size_t each : losses) result.losses.push_back(number_in(row[each]));
    for (const Parameter& each : space.parameters()) {
      const std::string& text = row[column_of(head, "parameter.", each.name)];
      if (!text.empty()) result.texts[each.name] = text;
    }
    results.push_back(std::move(result));
  }
  return results;
}

KnownResults known_results(const std::vector<NamedResult>& results, const Space& space) {
  KnownResults known;
  for (const NamedResult& each : results) {
    try {
      if (!std::ranges::all_of(each.losses, [](double loss) { return std::isfinite(loss); })) throw Error("no loss");
      known.individuals.push_back({.trial = -1 - static_cast<int64_t>(known.individuals.size()),
                                   .values = values_of(space, each.texts, Unnamed::refused),
                                   .loss = each.losses.front(),
                                   .objectives = each.losses.size() > 1 ? each.losses : std::vector<double>(),
                                   .state = TrialState::complete,
                                   .tag = from_elsewhere,
                                   .moves = 1});
    } catch (const Error&) {
      ++known.skipped;
    }
  }
  return known;
}

KnownResults read_known_results(const std::filesystem::path& path, const Space& space, const ObjectiveNames& objectives) {
  if (std::filesystem::is_directory(path)) return known_results(results_in_journal(path, space, objectives), space);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(path, 0, "cannot be opened");
  try {
    return known_results(results_in_csv({std::istreambuf_iterator<char>(in), {}}, space, objectives), space);
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(path, 0, error.what());
  }
}

}  // namespace tw::search
