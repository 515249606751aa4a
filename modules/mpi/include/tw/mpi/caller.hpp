// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw::mpi {

/// A rank's side of conversations with the Responders of others. They end in the order of the calls to each.
class Caller {
 public:
  /// Conversations with one rank that it has not ended; a further one waits.
  static constexpr int most_under_way = 16;
  static constexpr size_t most_opening_bytes = 4096;  ///< with what is attached

  struct Letter {
    std::span<const std::byte> opening;         ///< copied, and handled as a whole
    std::span<const std::byte> attached = {};   ///< the rest of the opening
    std::span<const std::byte> outgoing = {};   ///< what belongs to it
    std::span<std::byte> incoming = {};         ///< for the answer, which is as long
    std::shared_ptr<std::string> failure = {};  ///< becomes what the other side threw, or empty; logged where nobody else holds it then
  };

  /// @param comm borrowed; the Responders are on it
  explicit Caller(const Communicator& comm);
  /// A transfer whose messages are under way at once. Local, but for the wait of most_under_way.
  /// @param letter its memory is to stay until the end, which the owner of `failure` may see to: it is let go then
  std::unique_ptr<Transfer> call(Rank rank, const Letter& letter);
  /// Conversations that have not ended, with all ranks.
  int64_t under_way() const noexcept;

 private:
  class Line;
  class Messages;

  const Communicator& comm_;
  std::vector<std::shared_ptr<Line>> lines_;  // by rank; none where nothing was said
};

}  // namespace tw::mpi
