// SPDX-License-Identifier: Apache-2.0
// What the journal of a search says when the search is continued, for one worker.
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

/// The files in `folder`, all of them of the search that `own` heads; none for an empty path.
/// @throws FileError for what read_journal() refuses, and for a search over another space, with another seed or with other objectives
std::vector<JournalFile> read_past(const std::filesystem::path& folder, const JournalHeader& own);

/// What the files say together.
struct Past {
  std::vector<JournalFile> files;
  History all;
  JournalHeader header;  ///< of this worker's file from now on
  bool replays = false;  ///< each worker repeats what its file says, and appends to it. Otherwise a new epoch begins
  std::string gap = {};  ///< what is missing in files that could be replayed otherwise

  /// This worker's file, to be replayed. Null: there is none.
  const JournalFile* own_file() const;
  std::span<const JournalFile> files_of_epoch() const;
  /// Trials that ended before this epoch.
  std::map<int64_t, Individual> ended_before() const;
  /// The worker that had begun it, if its file is replayed.
  int worker_for(const Interrupted& interrupted) const;
};

/// Pure. @param own header_of() this worker. @param asked workers that a signal had asked to end. @param copies see MigrationOptions
Past past_of(std::vector<JournalFile> files, const JournalHeader& own, const std::set<int>& asked, bool copies);

/// What is left to do.
struct Backlog {
  std::vector<Interrupted> interrupted;  ///< trials that this worker repeats
  Turns turns;                           ///< of all workers' interrupted trials
  int64_t evaluations = 0;               ///< of all workers, in addition to interrupted trials
};

/// Pure. @param evaluations, attempts see SearchOptions
Backlog backlog_of(const Past& past, int64_t evaluations, int attempts);

}  // namespace tw::search
