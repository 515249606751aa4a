// SPDX-License-Identifier: Apache-2.0
// The past of a search, by trial, from its journal.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/evolution/stopping.hpp>
#include <tw/search/journal.hpp>
#include <vector>

namespace tw::search {

/// A trial that went on from where another one was.
struct Copy {
  int64_t original = 0;
  int64_t step = 0;                 ///< that it had reached itself
  std::vector<double> values = {};  ///< from then on
  double time = 0;
};

/// A time in which a trial did not run.
struct Pause {
  double from = 0;                                       ///< seconds since the Unix epoch
  double to = std::numeric_limits<double>::quiet_NaN();  ///< NaN: it has not gone on
};

struct LedgerEntry {
  Individual individual = {};  ///< `running`: it has not ended, or its process was lost. Its values are those at the end, or else at the beginning
  int attempts = 0;            ///< how often it began; all that follows is of the last time
  int losses = 0;              ///< how often it may have been why its process was lost
  int sole_losses = 0;         ///< of these, how often no other trial may have been
  Blame blame = Blame::none;   ///< for the last of them, and for any loss since
  bool paused = false;
  bool lost = false;  ///< so was its process, and it has not begun again
  int epoch = 0;
  int worker = 0;                                            ///< that evaluated it
  double begin = 0;                                          ///< seconds since the Unix epoch
  double end = std::numeric_limits<double>::quiet_NaN();     ///< NaN: it has none
  double last_sign = std::numeric_limits<double>::lowest();  ///< the end, or else the last report, or the beginning
  std::vector<Report> reports = {};                          ///< in their order
  std::vector<Copy> copies = {};                             ///< likewise
  std::vector<Pause> pauses = {};                            ///< likewise
  std::vector<double> constraints = {};                      ///< values that its evaluation gave for them
  std::string message = {};                                  ///< why it failed, or is infeasible

  bool has_ended() const noexcept { return individual.state != TrialState::running; }
  /// It runs, or did when the job ended.
  bool is_in_flight() const noexcept { return !has_ended() && !paused && !lost; }
};

/// An individual that another island received.
struct Migration {
  int64_t trial = 0;
  int from = 0;  ///< island
  int to = 0;
  int worker = 0;  ///< that is responsible for it from then on
  double time = 0;
};

struct Ledger {
  std::vector<LedgerEntry> trials = {};      ///< by trial
  std::vector<Individual> known = {};        ///< results from elsewhere that the search began with, which are no trials of its own
  std::vector<Migration> migrations = {};    ///< by time
  std::vector<std::string> objectives = {};  ///< their names; one or none: a loss
  std::string breeding = {};                 ///< by which propagator, and why; of the last epoch
  int epochs = 0;                            ///< layouts that the search had
  int workers = 0;                           ///< the most of an epoch
  std::vector<int> worker_ranks = {};        ///< ranks of each worker, in the last epoch that had it
  int islands = 0;                           ///< the most of an epoch
  int64_t next_trial = 0;                    ///< above all that there were

  /// Null: it never began.
  const LedgerEntry* find(int64_t trial) const;
};

/// @param files as read_journal() returns them
Ledger ledger_of(const std::vector<JournalFile>& files);

/// The ledger of a journal; empty where there is none. @throws FileError for what is no journal, or one of another space
Ledger read_ledger(const std::filesystem::path& folder, const Space& space);

}  // namespace tw::search
