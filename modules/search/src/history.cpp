// SPDX-License-Identifier: Apache-2.0
#include "history.hpp"

#include <tw/search/ledger.hpp>

namespace tw::search {

History history_of(const std::vector<JournalFile>& files) {
  Ledger ledger = ledger_of(files);
  History history{.known = std::move(ledger.known), .next_trial = ledger.next_trial, .epochs = ledger.epochs};
  for (LedgerEntry& entry : ledger.trials) {
    if (entry.has_ended()) {
      const int64_t trial = entry.individual.trial;
      history.reports.insert(history.reports.end(), entry.reports.begin(), entry.reports.end());
      history.ended.emplace_hint(history.ended.end(), trial, std::move(entry.individual));
    } else {
      history.interrupted.push_back({.individual = std::move(entry.individual),
                                     .losses = entry.losses,
                                     .sole_losses = entry.sole_losses,
                                     .blame = entry.blame,
                                     .was_in_flight = entry.is_in_flight(),
                                     .epoch = entry.epoch,
                                     .worker = entry.worker});
    }
  }
  return history;
}

}  // namespace tw::search
