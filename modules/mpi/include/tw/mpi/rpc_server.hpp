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

/// Answers the requests of other ranks, of their RpcClients, whenever the engine of this rank is driven; no explicit receive is needed.
///
/// A call begins with a client's request, a short message. The data that follows is received piece by piece; then the answer returns in pieces. Calls
/// of one client run one after the other, in their order; those of different clients run concurrently. A server holds two pieces of each client at
/// most, so that no client can flood it.
class RpcServer {
 public:
  struct Exchange {
    int64_t incoming = 0;                                       ///< bytes that follow the request
    std::function<void(std::span<const std::byte>)> take = {};  ///< called with each piece of them, until it throws
    /// Makes `piece`, which may hold an old one, the next to send back: of piece_bytes, only the last shorter; empty: that was all. Called after the
    /// last take(); must not throw. None: no answer.
    std::function<void(std::vector<std::byte>& piece)> give = {};
  };
  /// Handles a client's request; std::nullopt postpones it: the engine calls the handler again with the same request. Like the callbacks of Exchange,
  /// it runs inside the engine and must not communicate. An exception from it or from `take` ends the call, and the client receives the error; the
  /// handler may throw only where no data follows the request and no answer is expected.
  using Handler = std::function<std::optional<Exchange>(Rank from, std::span<const std::byte> request)>;

  static constexpr int64_t piece_bytes = int64_t{1} << 20;

  /// Local. @param comm used for calls alone
  RpcServer(const Communicator& comm, Handler handler);
  /// Accepts no further requests; calls that have begun still complete whenever the engine is driven. Local. After outlast(), it accepts requests
  /// until these clients have left, too.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Makes the destructor continue to accept requests, whenever the engine is driven, until RpcClients of `clients` ranks have left. Local.
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
