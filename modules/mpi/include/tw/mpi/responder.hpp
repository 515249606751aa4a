// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::mpi {

/// Answers the messages of other ranks wherever this rank's engine is driven, so that nobody has to ask for them: a server.
///
/// A conversation begins with a client's message, a short one, under `opening_tag`. What the client sends under
/// `payload_tag` belongs to it, in pieces of `piece_bytes` (the last may be shorter), and is taken piece by piece; then pieces go back under
/// `answer_tag`. Those of a client are held one after the other, in their order, those of different clients beside each other. A server
/// holds two pieces of each client at most, so that no client can flood it.
class Responder {
 public:
  struct Conversation {
    int64_t incoming = 0;                                       ///< bytes that follow the opening
    std::function<void(std::span<const std::byte>)> take = {};  ///< called with each piece of them
    /// Makes `piece`, which may hold an old one, the next to send back, of at most piece_bytes; empty: that was all. Called after the last take();
    /// none: no answer.
    std::function<void(std::vector<std::byte>& piece)> give = {};
  };
  /// What to do with a client's opening. Like `take` and `give` it runs inside the engine: it must neither communicate nor throw.
  using Handler = std::function<Conversation(Rank from, std::span<const std::byte> opening)>;

  static constexpr Tag opening_tag{0};
  static constexpr Tag payload_tag{1};
  static constexpr Tag answer_tag{2};
  static constexpr int64_t piece_bytes = int64_t{1} << 20;

  /// Local. @param comm only conversations use these tags on it
  Responder(const Communicator& comm, Handler handler);
  /// No opening is heard from then on; conversations that have begun go to their end wherever the engine is driven. Local.
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// Conversations that have ended.
  int64_t ended() const noexcept;

 private:
  struct Control {
    std::atomic<bool> closed = false;
    std::atomic<int64_t> ended = 0;
  };
  class Listening;

  std::shared_ptr<Control> control_;
  Work listening_;
};

}  // namespace tw::mpi
