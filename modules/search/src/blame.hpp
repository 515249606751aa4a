// SPDX-License-Identifier: Apache-2.0
// Which trials may have ended a job that was lost, and how they are tried again. Pure.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "history.hpp"

namespace tw::search {

/// Blames the trials that were in flight when the job ended, except those whose worker was asked to end.
/// @param asked workers all of whose ranks a signal had asked
std::vector<Interrupted> judged(std::vector<Interrupted> interrupted, const std::set<int>& asked);

/// Whether a trial has been lost `attempts` times when it alone can have been why: chance kills nobody so often.
bool is_given_up(const Interrupted& interrupted, int attempts);

/// When those that were lost are tried again: one after another, so that the next loss says more. Beside them go trials that have not been lost; but
/// where one was lost `attempts` times, and is not given up, none goes until it has been tried. The same on all workers, but for how far they know it
/// has come.
class Turns {
 public:
  Turns() = default;
  /// @param interrupted of all workers
  Turns(const std::vector<Interrupted>& interrupted, int attempts);

  /// Whether a trial may begin now. @param trial one that was interrupted
  bool allows(int64_t trial) const;
  /// Whether one that begins for the first time may.
  bool allows_others() const { return now_ >= alone_; }
  /// Whether it is its turn, so that pass() must follow when it has ended or paused.
  bool has(int64_t trial) const { return now_ < trials_.size() && trials_[now_] == trial; }
  /// @return turns that are over then
  int64_t pass() { return static_cast<int64_t>(++now_); }
  /// What another worker says.
  void take(int64_t over);

 private:
  std::vector<int64_t> trials_;  // in their order: those first that must be alone
  size_t alone_ = 0;             // how many these are
  size_t now_ = 0;
};

}  // namespace tw::search
