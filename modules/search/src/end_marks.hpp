// SPDX-License-Identifier: Apache-2.0
// Marks that processes leave in a journal's folder when a signal asks them to end. Their own trials did not end these processes.
#pragma once
#include <csignal>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

namespace tw::search {

/// While alive, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU leave a mark before they end the process. Signals that already have a handler
/// or are ignored are left alone. Only one object is active at a time: one that is created while another lives does nothing.
class EndMark {
 public:
  /// @param rank rank in the worker. @param ranks number of ranks of the worker
  EndMark(const std::filesystem::path& folder, int worker, int rank, int ranks);
  ~EndMark();
  EndMark(const EndMark&) = delete;
  EndMark& operator=(const EndMark&) = delete;

 private:
  std::vector<std::pair<int, struct sigaction>> replaced_;  // signals and their earlier handlers
};

/// The workers whose ranks all left a mark.
std::set<int> marked_workers(const std::filesystem::path& folder);
void remove_end_marks(const std::filesystem::path& folder);

}  // namespace tw::search
