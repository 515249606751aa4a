// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::mpi {

/// Answers the messages of other ranks, their RpcClients, wherever this rank's engine is driven, so that nobody has to ask for them: a server.
///
/// A call begins with a client's request, a short message. What the client sends after it is taken piece by piece; then pieces go back.
/// Those of a client are held one after the other, in their order, those of different clients beside each other. A server holds two pieces of each
/// client at most, so that no client can flood it.
class RpcServer {
 public:
  struct Exchange {
    int64_t incoming = 0;                                       ///< bytes that follow the request
    std::function<void(std::span<const std::byte>)> take = {};  ///< called with each piece of them, until it throws
    /// Makes `piece`, which may hold an old one, the next to send back: of piece_bytes, only the last shorter; empty: that was all. Called after the
    /// last take(); must not throw. None: no answer.
    std::function<void(std::vector<std::byte>& piece)> give = {};
  };
  /// What to do with a client's request; std::nullopt postpones it: the engine calls the handler again with the same request. Like `take` and `give`
  /// it runs inside the engine and must not communicate. What it throws, or `take`, ends the call, and the client is told; it may throw where nothing
  /// follows the request and no answer is expected.
  using Handler = std::function<std::optional<Exchange>(Rank from, std::span<const std::byte> request)>;

  static constexpr int64_t piece_bytes = int64_t{1} << 20;

  /// Local. @param comm used for calls alone
  RpcServer(const Communicator& comm, Handler handler);
  /// No request is heard from then on; calls that have begun go to their end wherever the engine is driven. Local.
  /// After outlast(), requests are heard until these clients have left, too.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Has the destructor go on hearing requests, wherever the engine is driven, until RpcClients of `clients` ranks have left. Local.
  void outlast(int clients) noexcept { control_->clients = clients; }
  /// Calls that have ended.
  int64_t ended() const noexcept;

 private:
  struct Control {
    std::atomic<bool> closed = false;
    std::atomic<int> clients = 0;  // that are to leave
    std::atomic<int64_t> ended = 0;
  };
  class Listening;

  std::shared_ptr<Control> control_;
  Work listening_;
};

}  // namespace tw::mpi
