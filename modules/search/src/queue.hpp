// SPDX-License-Identifier: Apache-2.0
// Trials put in by hand, as a worker sees them. Each is a file `queue/NUMBER.json` in the journal's folder, and whoever can rename it has claimed it.
#pragma once
#include <filesystem>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/evolution/space.hpp>

#include "history.hpp"

namespace tw::search {

class Queue {
 public:
  /// @param folder of the journal; empty: nothing comes. @param space borrowed
  Queue(const std::filesystem::path& folder, const Space& space);

  /// The next one, unless the queue was empty a moment ago. What is no configuration is put aside.
  std::optional<Proposal> take();
  /// Puts back what was claimed by a worker whose process was lost before its journal had it. By one process, while nobody takes.
  void put_back(const History& all) const;

 private:
  std::filesystem::path folder_;
  const Space& space_;
  std::optional<Stopwatch> since_empty_;
};

/// Whether a trial was put in by hand, rather than bred.
bool is_queued(const Tag& tag);

}  // namespace tw::search
