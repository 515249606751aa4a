// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/rpc_client.hpp>
#include <tw/mpi/work.hpp>

namespace tw::parameter_server {

/// The part of a tensor's memory that belongs to one server; not empty.
struct Part {
  const at::Tensor& of;  ///< owns the memory
  std::span<std::byte> bytes;
};

/// A rank's requests to servers on other nodes. Each server applies them in order.
class Client {
 public:
  /// @param comm borrowed; the servers respond on it
  explicit Client(const Communicator& comm) : comm_(comm), rpc_(comm) {}

  struct Answer {
    Work work;
    std::shared_ptr<const std::string> failure;  ///< the rule's error, set before `work` completes; logged if nothing else holds it then
  };

  /// Sends `part`.
  Answer push(Rank server, size_t rule, const Part& part);
  /// Fills `part`.
  Answer pull(Rank server, const Part& part);
  /// Announces that this rank sends no further request to `server`.
  void leave(Rank server) { rpc_.leave(server); }
  /// Returns when all requests are answered; under the stall watchdog. @param between called repeatedly meanwhile
  void finish(const std::function<void()>& between) { rpc_.finish(between); }
  /// The number of unanswered requests, to all servers.
  int64_t in_flight() const noexcept { return rpc_.in_flight(); }

 private:
  Answer call(Rank server, Collective way, const Part& part, mpi::RpcClient::Message message);

  const Communicator& comm_;
  mpi::RpcClient rpc_;
};

}  // namespace tw::parameter_server
