// SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <tw/search/ledger.hpp>

namespace tw::search {

History history_of(const std::vector<JournalFile>& files) {
  Ledger ledger = ledger_of(files);
  History history{.next_trial = ledger.next_trial, .epochs = ledger.epochs};
  for (LedgerEntry& entry : ledger.trials) {
    if (entry.has_ended()) {
      const int64_t trial = entry.individual.trial;
      history.reports.insert(history.reports.end(), entry.reports.begin(), entry.reports.end());
      history.ended.emplace_hint(history.ended.end(), trial, std::move(entry.individual));
    } else {
      history.interrupted.push_back({std::move(entry.individual), entry.losses, entry.blame, entry.is_in_flight(), entry.epoch, entry.worker});
    }
  }
  return history;
}

}  // namespace tw::search
