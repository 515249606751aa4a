// SPDX-License-Identifier: Apache-2.0
#include "known_results.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/search/ledger.hpp>
#include <utility>

#include "description.hpp"
#include "table.hpp"

namespace tw::search {
namespace {

/// A tag like that of a migrant, so that no propagator mistakes the result for its own proposal.
constexpr Tag from_elsewhere{.run = -2, .generation = 0, .index = -1};

/// The columns of a table, by name. A table that to_csv() wrote also has columns that are neither parameters nor objectives, such as `epoch`.
class Columns {
 public:
  explicit Columns(TextRow head) : head_(std::move(head)), exported_(is_exported()) {}

  size_t size() const noexcept { return head_.size(); }
  /// Index of the column NAME; size() if there is none.
  size_t named(const std::string& name) const { return static_cast<size_t>(std::ranges::find(head_, name) - head_.begin()); }
  /// Index of the column KIND.NAME, or else of NAME; size() if there is neither.
  size_t of(const std::string& kind, const std::string& name) const {
    const size_t prefixed = named(kind + name);
    return prefixed < size() || exported_ ? prefixed : named(name);
  }

 private:
  /// Other programs may have added columns before or between these.
  bool is_exported() const {
    const std::array<std::string, 5> own{"trial", "state", "attempts", "reports", "migrations"};
    return std::ranges::all_of(own, [&](const std::string& each) { return named(each) < size(); });
  }

  TextRow head_;
  bool exported_;
};

double number_in(const std::string& text) {
  double number = std::numeric_limits<double>::quiet_NaN();
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ptr == text.data() + text.size() ? number : std::numeric_limits<double>::quiet_NaN();
}

bool has_result(std::string state) {
  std::ranges::transform(state, state.begin(), [](unsigned char each) { return static_cast<char>(std::tolower(each)); });
  return state.empty() || state == "complete" || state == "pruned";
}

/// The losses of an individual for the wanted objectives, found by the names `own` that its search has for them.
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
    if (!each.individual.has_comparable_loss()) continue;
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
  const Columns columns(rows.empty() ? TextRow() : rows[0]);
  std::vector<size_t> losses;
  const bool several = objectives.size() > 1;
  for (const std::string& name : several ? objectives : ObjectiveNames{"loss"}) {
    losses.push_back(several ? columns.of("objective.", name) : columns.named(name));
    if (losses.back() == columns.size()) throw Error("a table of results must have a column '" + name + "'");
  }
  const size_t state = columns.named("state");
  std::vector<size_t> parameters;
  for (const Parameter& each : space.parameters()) {
    parameters.push_back(columns.of("parameter.", each.name));
    const size_t column = parameters.back();
    if (column == columns.size() || (column != state && std::ranges::find(losses, column) == losses.end())) continue;
    throw Error(concat("the column '", each.name, "' is the ", column == state ? "trial's state" : "loss",
                       "; call the column of the parameter 'parameter.", each.name, "'"));
  }
  std::vector<NamedResult> results;
  for (size_t i = 1; i < rows.size(); ++i) {
    TextRow row = rows[i];
    row.resize(columns.size() + 1);  // the last field is empty, for parameters without a column
    if (!has_result(row[state])) continue;
    NamedResult result;
    for (const size_t each : losses) result.losses.push_back(number_in(row[each]));
    for (size_t p = 0; p < parameters.size(); ++p) {
      const Parameter& parameter = space.parameters()[p];
      const std::string& text = row[parameters[p]];
      const bool is_choice = parameters[p] < columns.size() && !std::isnan(parameter.value_of(text));  // a choice may be an empty text
      if (is_choice || !text.empty()) result.texts[parameter.name] = text;
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
      std::vector<double> values = values_of(space, each.texts, Unnamed::refused);
      if (const std::string violated = space.violated(values); !violated.empty()) throw Error("violates '" + violated + "'");
      known.individuals.push_back({.trial = -1 - static_cast<int64_t>(known.individuals.size()),
                                   .values = std::move(values),
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
