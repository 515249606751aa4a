// SPDX-License-Identifier: Apache-2.0
// What a search that goes on needs of its ledger.
#pragma once
#include <map>
#include <tw/evolution/stopping.hpp>
#include <tw/search/journal.hpp>
#include <vector>

namespace tw::search {

/// A trial that had begun, and not ended.
struct Interrupted {
  Individual individual;
  int losses = 0;              ///< see LedgerEntry
  int sole_losses = 0;         ///< likewise
  Blame blame = Blame::none;   ///< likewise
  bool was_in_flight = false;  ///< when the job ended
  int epoch = 0;
  int worker = 0;  ///< that began it last
};

struct History {
  std::vector<Individual> known = {};         ///< from elsewhere
  std::map<int64_t, Individual> ended = {};   ///< by trial
  std::vector<Report> reports = {};           ///< of those that ended, by trial
  std::vector<Interrupted> interrupted = {};  ///< by trial
  int64_t next_trial = 0;                     ///< above all that there were
  int epochs = 0;
};

History history_of(const std::vector<JournalFile>& files);

}  // namespace tw::search
