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

std::string name_in_head(const std::string& column) {
  const std::string ours = "parameter.";
  return column.starts_with(ours) ? column.substr(ours.size()) : column;
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

std::vector<NamedResult> results_in_journal(const std::filesystem::path& folder, const Space& space) {
  const Space own = read_description(folder).space;
  std::vector<NamedResult> results;
  for (const LedgerEntry& each : read_ledger(folder, own).trials) {
    if (!each.individual.counts()) continue;
    NamedTexts texts = named_texts(own, each.individual.values);
    std::erase_if(texts,
                  [&](const auto& text) { return std::ranges::find(space.parameters(), text.first, &Parameter::name) == space.parameters().end(); });
    results.push_back({std::move(texts), each.individual.loss});
  }
  return results;
}

}  // namespace

std::vector<NamedResult> results_in_csv(const std::string& csv, const Space& space) {
  const std::vector<TextRow> rows = rows_of_csv(csv);
  const TextRow head = rows.empty() ? TextRow() : rows[0];
  const auto column = [&](const std::string& name) { return static_cast<size_t>(std::ranges::find(head, name) - head.begin()); };
  const size_t loss = column("loss");
  const size_t state = column("state");
  if (loss == head.size()) throw Error("a table of results has a column 'loss'");
  std::vector<NamedResult> results;
  for (size_t i = 1; i < rows.size(); ++i) {
    TextRow row = rows[i];
    row.resize(head.size() + 1);  // the last one is empty, for what has no column
    if (!has_result(row[state])) continue;
    NamedResult result{.texts = {}, .loss = number_in(row[loss])};
    for (const Parameter& each : space.parameters()) {
      const auto at = std::ranges::find(head, each.name, name_in_head);
      if (at != head.end() && !row[static_cast<size_t>(at - head.begin())].empty())
        result.texts[each.name] = row[static_cast<size_t>(at - head.begin())];
    }
    results.push_back(std::move(result));
  }
  return results;
}

KnownResults known_results(const std::vector<NamedResult>& results, const Space& space) {
  KnownResults known;
  for (const NamedResult& each : results) {
    try {
      if (!std::isfinite(each.loss)) throw Error("no loss");
      known.individuals.push_back({.trial = -1 - static_cast<int64_t>(known.individuals.size()),
                                   .values = values_of(space, each.texts, Unnamed::refused),
                                   .loss = each.loss,
                                   .state = TrialState::complete,
                                   .tag = from_elsewhere,
                                   .moves = 1});
    } catch (const Error&) {
      ++known.skipped;
    }
  }
  return known;
}

KnownResults read_known_results(const std::filesystem::path& path, const Space& space) {
  if (std::filesystem::is_directory(path)) return known_results(results_in_journal(path, space), space);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(path, 0, "cannot be opened");
  try {
    return known_results(results_in_csv({std::istreambuf_iterator<char>(in), {}}, space), space);
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(path, 0, error.what());
  }
}

}  // namespace tw::search
