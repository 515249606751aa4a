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
  /// Maximum number of unfinished calls with one rank; a further call waits, and that wait is monitored.
  static constexpr int max_in_flight = 16;
  static constexpr size_t max_request_bytes = 4096;  ///< including `attached`

  struct Message {
    std::span<const std::byte> request;         ///< not empty; copied, and handled as a whole
    std::span<const std::byte> attached = {};   ///< the rest of the request
    std::span<const std::byte> outgoing = {};   ///< data that follows the request
    std::span<std::byte> incoming = {};         ///< buffer for the answer, which has exactly this size
    std::shared_ptr<std::string> failure = {};  ///< receives the server's error message, or stays empty; logged if nobody else holds it
  };

  /// @param comm borrowed; the RpcServers are on it
  explicit RpcClient(const Communicator& comm);
  explicit RpcClient(Communicator&&) = delete;
  /// Makes the transfer of a call, whose messages are in flight at once. Local, except for the wait for max_in_flight.
  /// @param message its memory must stay valid until the call ends; the owner of `failure` can detect that, because `failure` is released then
  std::unique_ptr<Transfer> call(Rank rank, const Message& message);
  /// Notifies the RpcServer of `rank` that this client makes no further calls, see RpcServer::outlast(). Local; at most once. An error is logged;
  /// does nothing if `comm` is revoked or the Environment no longer exists.
  void leave(Rank rank) noexcept;
  /// Returns when all calls have ended. Monitored: the watchdog names a server that ends no call for long. @param between called repeatedly meanwhile
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
