// SPDX-License-Identifier: Apache-2.0
// Marks that processes leave in a journal's folder when a signal asks them to end: these did not end by what they were doing.
#pragma once
#include <csignal>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

namespace tw::search {

/// While it lives, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU leave a mark before they end the process; those of them that somebody else
/// heeds are left to them. One at a time: what lives inside another one does nothing.
class EndMark {
 public:
  /// @param rank of `ranks` of this worker
  EndMark(const std::filesystem::path& folder, int worker, int rank, int ranks);
  ~EndMark();
  EndMark(const EndMark&) = delete;
  EndMark& operator=(const EndMark&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> replaced_;  // by signal
};

/// The workers all of whose ranks left a mark.
std::set<int> marked_workers(const std::filesystem::path& folder);
void remove_end_marks(const std::filesystem::path& folder);

}  // namespace tw::search
