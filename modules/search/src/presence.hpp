// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace tw::search {

/// Which of the individuals that have moved are on an island. News of one come from whoever answered for it at the time, so a later one may be heard
/// first: what counts is the latest of its journey, by the number of moves that it had made. Pure.
class Presence {
 public:
  /// It is here after this many moves. @return whether that is the latest
  bool arrives(int64_t trial, int32_t moves) {
    if (moves == 0 && !latest_.contains(trial)) return true;
    return is_latest(trial, 2 * moves);
  }
  /// It left after this many moves. @return whether that is the latest
  bool departs(int64_t trial, int32_t moves) { return is_latest(trial, 2 * moves + 1); }
  /// That are known of it.
  int32_t moves(int64_t trial) const {
    const auto found = latest_.find(trial);
    return found == latest_.end() ? 0 : found->second / 2;
  }

 private:
  bool is_latest(int64_t trial, int32_t stamp) {
    int32_t& latest = latest_[trial];
    if (stamp < latest) return false;
    latest = stamp;
    return true;
  }

  std::unordered_map<int64_t, int32_t> latest_;  // by trial: 2 moves, and 1 more where it has left
};

}  // namespace tw::search
