// SPDX-License-Identifier: Apache-2.0
// The state of one worker in a search's journal when the search is continued.
#pragma once
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <tw/search/journal.hpp>
#include <vector>

#include "blame.hpp"
#include "history.hpp"
#include "place.hpp"

namespace tw::search {

/// The header of a worker's file in a search that begins.
JournalHeader header_of(const Place& place);

/// The files in `folder`, all of the search with the header `own`; none for an empty path.
/// @throws FileError like read_journal(), and for a search over another space, with another seed or with other objectives
std::vector<JournalFile> read_past(const std::filesystem::path& folder, const JournalHeader& own);

/// The contents of all files, and how this worker continues.
struct Past {
  std::vector<JournalFile> files;
  History all;
  JournalHeader header;  ///< header of this worker's file from now on
  bool replays = false;  ///< each worker replays its file and appends to it. Otherwise a new epoch begins
  std::string gap = {};  ///< what is missing in files of the same layout, which is why they cannot be replayed; empty: nothing

  /// This worker's file in this epoch, which it replays; null if there is none.
  const JournalFile* own_file() const;
  std::span<const JournalFile> files_of_epoch() const;
  /// Trials that ended before this epoch.
  std::map<int64_t, Individual> ended_before() const;
  /// The worker that repeats the trial: the one that had begun it if files are replayed, otherwise one chosen by its number.
  int worker_for(const Interrupted& interrupted) const;
};

/// Pure. @param own header_of() this worker. @param asked workers that a signal had asked to end. @param copies see MigrationOptions
Past past_of(std::vector<JournalFile> files, const JournalHeader& own, const std::set<int>& asked, bool copies);

/// The remaining work.
struct Backlog {
  std::vector<Interrupted> interrupted;  ///< trials that this worker repeats
  Turns turns;                           ///< turns of the interrupted trials of all workers
  int64_t evaluations = 0;               ///< total over all workers, in addition to interrupted trials
};

/// Pure. @param evaluations, attempts see SearchOptions
Backlog backlog_of(const Past& past, int64_t evaluations, int attempts);

}  // namespace tw::search
