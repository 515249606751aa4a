// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw::mpi {

/// A rank's side of conversations with the Responders of others. They answer in the order of the calls to each.
class Caller {
 public:
  /// Conversations with one rank that it has not ended; a further one waits.
  static constexpr int most_under_way = 16;

  struct Letter {
    std::span<const std::byte> opening;        ///< short: sent without asking, and handled as a whole
    std::span<const std::byte> outgoing = {};  ///< what belongs to it
    std::span<std::byte> incoming = {};        ///< for the answer, which is in as many pieces; the last may be shorter
  };

  /// @param comm borrowed; the Responders are on it
  explicit Caller(const Communicator& comm);
  /// A transfer whose messages are under way at once. Local, but for the wait of most_under_way.
  /// @param letter its memory is to stay until the end, which the operation's `finish` may see to
  std::unique_ptr<Transfer> call(Rank rank, const Letter& letter);
  /// Conversations that have not ended, with all ranks.
  int64_t under_way() const noexcept;

 private:
  struct Counts {
    int64_t begun = 0;
    std::atomic<int64_t> ended = 0;
  };
  class Messages;

  const Communicator& comm_;
  std::vector<std::shared_ptr<Counts>> counts_;  // by rank
};

}  // namespace tw::mpi
