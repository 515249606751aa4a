// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/progress_bar.hpp>
#include <vector>

#include "place.hpp"
#include "post.hpp"

namespace tw::search {

/// The progress line of a search. Worker 0 shows it; the others send it their status four times a second at most. Does nothing unless
/// SearchOptions::progress is set.
class ProgressLine {
 public:
  ProgressLine(const Place& place, Post& post);

  /// @param past evaluations of earlier runs
  void begin(int64_t past);
  /// Call it when a trial of this worker has ended or paused.
  void update(const StatusMessage& mine);
  void take(const StatusMessage& message, int from) { statuses_[static_cast<size_t>(from)] = message; }
  /// Sends the status, for example the final one.
  void tell(const StatusMessage& mine);
  /// Call it when the final statuses of all workers have arrived.
  void finish();

 private:
  std::string draw();

  const Place place_;
  Post& post_;
  std::vector<StatusMessage> statuses_;  // on worker 0: of all workers
  std::optional<ProgressBar> bar_;
  Stopwatch since_begin_;
  Stopwatch since_status_;
};

}  // namespace tw::search
