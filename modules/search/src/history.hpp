// SPDX-License-Identifier: Apache-2.0
// The parts of a ledger that a continued search needs.
#pragma once
#include <map>
#include <tw/evolution/stopping.hpp>
#include <tw/search/journal.hpp>
#include <vector>

namespace tw::search {

/// A trial that had begun, but not ended.
struct Interrupted {
  Individual individual;
  int losses = 0;              ///< see LedgerEntry
  int sole_losses = 0;         ///< likewise
  Blame blame = Blame::none;   ///< likewise
  bool was_in_flight = false;  ///< whether it was in flight when the job ended
  int epoch = 0;
  int worker = 0;  ///< worker that began it last
};

struct History {
  std::vector<Individual> known = {};         ///< warm-start results from elsewhere
  std::map<int64_t, Individual> ended = {};   ///< by trial
  std::vector<Report> reports = {};           ///< reports of trials that ended, by trial
  std::vector<Interrupted> interrupted = {};  ///< by trial
  int64_t next_trial = 0;                     ///< one above the largest trial number
  int epochs = 0;
};

History history_of(const std::vector<JournalFile>& files);

}  // namespace tw::search
