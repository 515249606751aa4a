// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw::mpi {

/// Calls the RpcServers of other ranks. The calls to one server end in order.
class RpcClient {
 public:
  /// Maximum number of unfinished calls to one rank; a further call waits, under the watchdog (EnvironmentOptions::stall_warning).
  static constexpr int max_in_flight = 16;
  static constexpr size_t max_request_bytes = 4096;  ///< including `attached`

  struct Message {
    std::span<const std::byte> request;         ///< not empty; copied, and passed to the server's handler in one piece
    std::span<const std::byte> attached = {};   ///< appended to `request` as its last part; copied, too
    std::span<const std::byte> outgoing = {};   ///< data that follows the request
    std::span<std::byte> incoming = {};         ///< buffer for the answer, which has exactly this size
    std::shared_ptr<std::string> failure = {};  ///< receives the server's error message, or ""; if only the call owns it, errors are logged
  };

  /// @param comm communicator of the RpcServers; must outlive this object
  explicit RpcClient(const Communicator& comm);
  explicit RpcClient(Communicator&&) = delete;
  /// Makes the transfer of a call, to pass to start(), and starts its messages. Local, except that it waits while max_in_flight calls to `rank` are
  /// unfinished.
  /// @param message `outgoing` and `incoming` must stay valid until the call ends. The call releases its reference to `failure` then, so that another
  /// owner of `failure` can detect the end
  std::unique_ptr<Transfer> call(Rank rank, const Message& message);
  /// Notifies the RpcServer of `rank` that this client makes no further calls to it, see RpcServer::outlast(). Local; call it at most once for each
  /// rank. Logs errors; does nothing if `comm` is revoked or the Environment no longer exists.
  void leave(Rank rank) noexcept;
  /// Returns when all calls to all ranks have ended. The watchdog reports a server that ends no call for long. @param between called repeatedly
  /// meanwhile
  void finish(const std::function<void()>& between = {});
  /// The number of calls that have not ended, over all ranks.
  int64_t in_flight() const noexcept;

 private:
  class Line;
  class Messages;
  class Leaving;

  void wait_for_at_most(int64_t calls, const Line& line, Rank rank, const std::function<void()>& between = {});

  const Communicator& comm_;
  std::vector<std::shared_ptr<Line>> lines_;  // by rank; null if nothing was sent
};

}  // namespace tw::mpi
