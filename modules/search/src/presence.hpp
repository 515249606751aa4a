// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace tw::search {

/// Which of the individuals that have moved are on an island. Messages about an individual come from the workers that were responsible for it at the
/// time, so a later one may arrive first. The message with the largest number of moves counts. Pure.
class Presence {
 public:
  /// The individual is here after this number of moves. @return whether this is the latest information
  bool arrives(int64_t trial, int32_t moves) {
    if (moves == 0 && !latest_.contains(trial)) return true;
    return is_latest(trial, 2 * moves);
  }
  /// The individual left after this number of moves. @return whether this is the latest information
  bool departs(int64_t trial, int32_t moves) { return is_latest(trial, 2 * moves + 1); }
  /// The known number of moves.
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

  std::unordered_map<int64_t, int32_t> latest_;  // by trial: twice the number of moves, plus 1 if it has left
};

}  // namespace tw::search
