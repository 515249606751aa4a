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
/// A call begins with a client's request, a short message. Data may follow the request and is received piece by piece; then the answer is sent in
/// pieces. Calls of one client run one after the other, in order; calls of different clients run concurrently. A server holds at most two pieces per
/// client, so that no client can flood it.
class RpcServer {
 public:
  struct Exchange {
    int64_t incoming = 0;                                       ///< bytes that follow the request
    std::function<void(std::span<const std::byte>)> take = {};  ///< called with each received piece, until it throws
    /// Fills `piece` with the next piece of the answer; `piece` may still hold an earlier one. Pieces have piece_bytes bytes; only the last may be
    /// shorter. An empty piece ends the answer. Called after the last take(); must not throw. An empty function: no answer.
    std::function<void(std::vector<std::byte>& piece)> answer = {};
  };
  /// Handles a client's request. If it returns std::nullopt, the engine calls it again later with the same request. Like the callbacks of Exchange,
  /// it runs inside the engine and must not communicate. If the handler or `take` throws, the client receives the error. The handler may throw only
  /// if no data follows the request and the client expects no answer.
  using Handler = std::function<std::optional<Exchange>(Rank from, std::span<const std::byte> request)>;

  static constexpr int64_t piece_bytes = int64_t{1} << 20;

  /// Local. @param comm must be used only for calls of RpcClients
  RpcServer(const Communicator& comm, Handler handler);
  /// Accepts no further requests, unless outlast() was called. Calls that have begun still complete whenever the engine is driven. Local.
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  /// Makes the server accept requests even after its destruction, whenever the engine is driven, until the RpcClients of `clients` ranks have called
  /// leave(). Local.
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
