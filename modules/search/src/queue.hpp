// SPDX-License-Identifier: Apache-2.0
// Configurations that users queued by enqueue(), for a worker. Each is a file `queue/NUMBER.json` in the journal's folder. A worker claims it by
// renaming it.
#pragma once
#include <filesystem>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/evolution/space.hpp>

#include "history.hpp"

namespace tw::search {

class Queue {
 public:
  /// @param folder the journal; empty: the queue is always empty. @param space borrowed
  Queue(const std::filesystem::path& folder, const Space& space);

  /// Claims the next configuration; none if the queue was empty less than 0.1 s ago. Renames invalid ones to NUMBER.refused.
  std::optional<Proposal> take();
  /// Puts configurations back that a worker claimed, but whose start is not in the journal since its process was lost. Call it on one process, while
  /// no worker calls take().
  void put_back(const History& all) const;

 private:
  std::filesystem::path folder_;
  const Space& space_;
  std::optional<Stopwatch> since_empty_;
};

/// Whether a trial came from the queue rather than from the propagator.
bool is_queued(const Tag& tag);

}  // namespace tw::search
