// SPDX-License-Identifier: Apache-2.0
#include <tw/search/status.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/exact_text.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/progress_bar.hpp>
#include <tw/evolution/named_values.hpp>
#include <tw/search/ledger.hpp>
#include <vector>

#include "description.hpp"
#include "unbroken_clock.hpp"

namespace tw::search {
namespace {

constexpr size_t max_in_flight = 20;  // trials that are listed

std::string duration_of(double seconds) { return format_duration(Seconds(seconds)); }

std::string counts_text(const std::map<TrialState, int64_t>& counts) {
  constexpr std::array states{TrialState::complete, TrialState::pruned, TrialState::failed, TrialState::infeasible};
  return joined(states, ", ", [&](TrialState state) {
    const auto found = counts.find(state);
    return concat(found == counts.end() ? 0 : found->second, ' ', name_of(state));
  });
}

std::string best_text(const Ledger& ledger, const Space& space) {
  const Individual* best = nullptr;
  for (const LedgerEntry& each : ledger.trials) {
    if (each.individual.has_comparable_loss() && (best == nullptr || each.individual.loss < best->loss)) best = &each.individual;
  }
  if (best == nullptr) return "";
  std::string text = concat("  best         trial ", best->trial, ", loss ", exact_text(best->loss), '\n');
  for (const auto& [name, value] : named_texts(space, best->values)) text += concat("    ", name, " = ", value, '\n');
  return text;
}

std::string in_flight_text(const Ledger& ledger, double now, bool runs) {
  std::vector<const LedgerEntry*> in_flight;
  int64_t paused = 0;
  int64_t lost = 0;
  for (const LedgerEntry& each : ledger.trials) {
    if (each.is_in_flight()) in_flight.push_back(&each);
    paused += each.paused && !each.has_ended() ? 1 : 0;
    lost += each.lost && !each.has_ended() ? 1 : 0;
  }
  std::string text;
  for (size_t i = 0; i < std::min(in_flight.size(), max_in_flight); ++i) {
    const LedgerEntry& each = *in_flight[i];
    text += concat(runs ? "  running      " : "  not ended    ", "trial ", each.individual.trial, ", worker ", each.worker);
    if (runs) text += concat(", for ", duration_of(now - each.begin));
    if (!each.reports.empty()) text += concat(", at step ", each.reports.back().step, ": ", brief_text(each.reports.back().value));
    text += '\n';
  }
  if (in_flight.size() > max_in_flight) text += concat("               and ", in_flight.size() - max_in_flight, " more\n");
  if (paused > 0) text += concat("  paused       ", paused, '\n');
  if (lost > 0) text += concat("  to repeat    ", lost, ", whose process was lost\n");
  return text;
}

std::string left_text(const Description& search, int64_t ended, double rate) {
  if (search.evaluations == 0) return concat("  left         a run ends after ", duration_of(search.seconds), "\n");
  const int64_t left = std::max<int64_t>(0, search.evaluations - ended);
  std::string text = concat("  left         ", left, " of ", search.evaluations, " evaluations");
  if (left > 0 && rate > 0) text += concat(", in about ", duration_of(static_cast<double>(left) / rate * 3600));
  return text + '\n';
}

}  // namespace

std::string status_text(const std::filesystem::path& folder, double now, bool runs) {
  const Description search = read_description(folder);
  const Ledger ledger = read_ledger(folder, search.space);
  std::map<TrialState, int64_t> counts;
  for (const LedgerEntry& each : ledger.trials) ++counts[each.individual.state];
  const int64_t ended = static_cast<int64_t>(ledger.trials.size()) - counts[TrialState::running];
  const double seconds = ledger.trials.empty() ? 0 : UnbrokenClock(ledger).total();
  const double rate = seconds > 0 ? static_cast<double>(ended) / seconds * 3600 : 0;
  std::string text = concat("search: ", counts_text(counts), runs ? "; running" : "; not running", '\n');
  text += concat("  workers      ", ledger.workers, ", islands ", ledger.islands, '\n');
  text += best_text(ledger, search.space) + in_flight_text(ledger, now, runs);
  if (rate > 0) text += concat("  rate         ", fixed_text(rate, rate < 100 ? 1 : 0), " evaluations per hour\n");
  return text + left_text(search, ended, rate);
}

}  // namespace tw::search
