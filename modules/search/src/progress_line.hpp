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

/// How far a search has come: worker 0 shows it, the others tell it now and then. Nothing unless the options ask for it.
class ProgressLine {
 public:
  ProgressLine(const Place& place, Post& post);

  /// @param past evaluations of earlier runs
  void begin(int64_t past);
  /// Some trial of this worker has ended or paused.
  void update(const StatusMessage& mine);
  void take(const StatusMessage& message, int from) { statuses_[static_cast<size_t>(from)] = message; }
  /// The last word of this worker.
  void tell(const StatusMessage& mine);
  /// When all have been heard.
  void finish();

 private:
  std::string draw();

  const Place place_;
  Post& post_;
  std::vector<StatusMessage> statuses_;  // on worker 0, of all
  std::optional<ProgressBar> bar_;
  Stopwatch since_begin_;
  Stopwatch since_status_;
};

}  // namespace tw::search
