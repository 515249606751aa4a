// SPDX-License-Identifier: Apache-2.0
// Which trials may have ended a job that was lost, and in which order they are repeated. Pure.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "history.hpp"

namespace tw::search {

/// Blames the trials that were in flight when the job ended, except those whose worker was asked to end.
/// @param asked workers whose ranks were all asked to end by a signal
std::vector<Interrupted> judged(std::vector<Interrupted> interrupted, const std::set<int>& asked);

/// Whether a trial was lost `attempts` times when no other trial can have been the cause. Chance rarely hits the same trial so often.
bool is_given_up(const Interrupted& interrupted, int attempts);

/// The order in which trials that were lost are repeated: one after another, so that the next loss reveals more. Trials that were never lost may run
/// at the same time. However, while a trial that was lost `attempts` times and is not given up awaits its turn or runs, no other trial begins. The
/// order is the same on all workers; how many turns are over is exchanged by messages, so some workers may learn of it later.
class Turns {
 public:
  Turns() = default;
  /// @param interrupted interrupted trials of all workers
  Turns(const std::vector<Interrupted>& interrupted, int attempts);

  /// Whether an interrupted trial may begin now.
  bool allows(int64_t trial) const;
  /// Whether a new trial may begin now.
  bool allows_others() const { return now_ >= alone_; }
  /// Whether it is this trial's turn. If so, call pass() when it has ended or paused.
  bool has(int64_t trial) const { return now_ < trials_.size() && trials_[now_] == trial; }
  /// Ends the current turn. @return the number of turns that are over now
  int64_t pass() { return static_cast<int64_t>(++now_); }
  /// Another worker reports this number of turns that are over.
  void advance_to(int64_t over);

 private:
  std::vector<int64_t> trials_;  // by turn; trials that must run alone come first
  size_t alone_ = 0;             // number of trials that must run alone
  size_t now_ = 0;
};

}  // namespace tw::search
