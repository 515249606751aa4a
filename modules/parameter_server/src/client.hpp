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

/// The bytes of a tensor that lie on one server, at least one.
struct Part {
  const at::Tensor& of;  ///< owns the memory
  std::span<std::byte> bytes;
};

/// A rank's requests to servers on other nodes, which take effect in their order on each.
class Client {
 public:
  /// @param comm borrowed; the servers' responders are on it
  explicit Client(const Communicator& comm) : comm_(comm), rpc_(comm) {}

  struct Answer {
    Work work;
    std::shared_ptr<const std::string> failure;  ///< becomes what the rule threw, before `work` is complete; logged if nobody holds it then
  };

  /// Sends `part`.
  Answer push(Rank server, size_t rule, const Part& part);
  /// Fills `part`.
  Answer pull(Rank server, const Part& part);
  /// Makes no further request to `server`.
  void leave(Rank server) { rpc_.leave(server); }
  /// Returns when all requests are answered. Watched. @param between called again and again meanwhile
  void finish(const std::function<void()>& between) { rpc_.finish(between); }
  /// Requests that are not answered, to all servers.
  int64_t in_flight() const noexcept { return rpc_.in_flight(); }

 private:
  Answer call(Rank server, Collective way, const Part& part, mpi::RpcClient::Message message);

  const Communicator& comm_;
  mpi::RpcClient rpc_;
};

}  // namespace tw::parameter_server
