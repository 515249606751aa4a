// SPDX-License-Identifier: Apache-2.0
// The history of a search sorted by trial number, read from its journal.
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

/// A copy: a trial continued from the state of another.
struct Copy {
  int64_t original = 0;
  int64_t step = 0;                 ///< step that the copying trial itself had reached
  std::vector<double> values = {};  ///< values of the copying trial after the copy
  double time = 0;                  ///< seconds since the Unix epoch
};

/// A period in which a trial did not run.
struct Pause {
  double from = 0;                                       ///< seconds since the Unix epoch
  double to = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not resumed yet
};

struct LedgerEntry {
  /// Its `state` is `running` until the trial ends, even after a process loss. Its `values` are those with which the trial began; once it has ended,
  /// those of its last copy, if it has any.
  Individual individual = {};
  int attempts = 0;           ///< how often the trial began; the fields from `paused` on describe the last attempt
  int losses = 0;             ///< number of process losses that this trial may have caused
  int sole_losses = 0;        ///< number of process losses that no other trial can have caused
  Blame blame = Blame::none;  ///< blame of this trial for the last loss of its process
  bool paused = false;
  bool lost = false;  ///< its process was lost, and it has not begun again
  int epoch = 0;
  int worker = 0;                                                ///< worker that evaluated it
  double begin = 0;                                              ///< seconds since the Unix epoch
  double end = std::numeric_limits<double>::quiet_NaN();         ///< NaN: not ended
  double last_activity = std::numeric_limits<double>::lowest();  ///< time of its last event: beginning, report, pause, resume or end
  std::vector<Report> reports = {};                              ///< in order
  std::vector<Copy> copies = {};                                 ///< in order
  std::vector<Pause> pauses = {};                                ///< in order
  std::vector<double> constraints = {};                          ///< constraint values that its evaluation returned
  std::string message = {};                                      ///< why it failed or is infeasible

  bool has_ended() const noexcept { return individual.state != TrialState::running; }
  /// Whether the trial is running or, if the search has stopped, was running then.
  bool is_in_flight() const noexcept { return !has_ended() && !paused && !lost; }
};

/// The move of an individual to another island.
struct Migration {
  int64_t trial = 0;
  int from = 0;  ///< island
  int to = 0;
  int worker = 0;   ///< worker that is responsible for it from then on
  double time = 0;  ///< seconds since the Unix epoch
};

struct Ledger {
  std::vector<LedgerEntry> trials = {};      ///< sorted by trial number
  std::vector<Individual> known = {};        ///< warm-start results from elsewhere, which are not trials of this search
  std::vector<Migration> migrations = {};    ///< sorted by time
  std::vector<std::string> objectives = {};  ///< names of the objectives; one or none: a single loss
  std::string propagator_reason = {};        ///< the last epoch's propagator and the reason for choosing it
  int epochs = 0;                            ///< number of layouts that the search has had
  int workers = 0;                           ///< maximum over all epochs
  std::vector<int> worker_ranks = {};        ///< number of ranks of each worker, from the last epoch that had this worker
  int islands = 0;                           ///< maximum over all epochs
  int64_t next_trial = 0;                    ///< one above the largest trial number

  /// The entry of a trial; null if the trial never began.
  const LedgerEntry* find(int64_t trial) const&;
  const LedgerEntry* find(int64_t trial) && = delete;
};

/// @param files as read_journal() returns them
Ledger ledger_of(const std::vector<JournalFile>& files);

/// Reads the ledger of the journal in `folder`; empty if there is no journal. @throws FileError like read_journal(), and if a file belongs to another
/// space
Ledger read_ledger(const std::filesystem::path& folder, const Space& space);

}  // namespace tw::search
