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

/// Answers requests of other ranks' RpcClients whenever this rank's engine is driven; no explicit receive is needed.
///
/// A call begins with a client's request, a short message. The data that follows it is received piece by piece; then the answer is sent in pieces.
/// Calls of one client run one after the other, in order; those of different clients run concurrently. A server holds at most two pieces per client,
/// so that no client can flood it.
class RpcServer {
 public:
  struct Exchange {
    int64_t incoming = 0;                                       ///< bytes that follow the request
    std::function<void(std::span<const std::byte>)> take = {};  ///< called with each received piece, until it throws
    /// Fills `piece`, which may hold the bytes of an earlier one, with the next piece of the answer. Pieces have piece_bytes bytes; only the last may
    /// be shorter. An empty piece ends the answer. Called after the last take(); must not throw. An empty function: no answer.
    std::function<void(std::vector<std::byte>& piece)> answer = {};
  };
  /// Handles a client's request; std::nullopt postpones it: the engine calls the handler again with the same request. Like the callbacks of Exchange,
  /// it runs inside the engine and must not communicate. An exception from it or from `take` ends the call, and the client receives the error; the
  /// handler may throw only if no data follows the request and no answer is expected.
  using Handler = std::function<std::optional<Exchange>(Rank from, std::span<const std::byte> request)>;

  static constexpr int64_t piece_bytes = int64_t{1} << 20;

  /// Local. @param comm must be used only for calls
  RpcServer(const Communicator& comm, Handler handler);
  /// Accepts no further requests; calls that have begun still complete whenever the engine is driven. Local. After outlast(), it still accepts
  /// requests until that number of clients have left.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Makes the server accept requests even after its destruction, whenever the engine is driven, until RpcClients of `clients` ranks have left.
  /// Local.
  void outlast(int clients) noexcept { control_->clients = clients; }
  /// The number of calls that have ended.
  int64_t ended() const noexcept;

 private:
  struct Control {
    std::atomic<bool> closed = false;
    std::atomic<int> clients = 0;  // clients that must leave before it closes
    std::atomic<int64_t> ended = 0;
  };
  class Listening;

  std::shared_ptr<Control> control_;
  Work listening_;
};

}  // namespace tw::mpi
