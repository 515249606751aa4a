// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::parameter_server {

/// What one server holds of a tensor's memory, not nothing.
struct Part {
  at::Tensor of;  ///< keeps the memory
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

/// A rank's side of conversations with servers on other nodes: see Responder. A server answers requests in their order.
class Client {
 public:
  /// Requests to one server that it has not answered; a further one waits.
  static constexpr int most_under_way = 16;

  /// @param comm borrowed; the servers' responders are on it
  explicit Client(const Communicator& comm);

  /// Sends `part`. @param failure becomes what the rule threw, before the result is complete; logged if nobody else holds it then
  Work push(Rank server, size_t rule, const Part& part, const std::shared_ptr<std::string>& failure);
  /// Fills `part`.
  Work pull(Rank server, const Part& part);
  /// Requests that are not answered, to all servers.
  int64_t under_way() const noexcept;

 private:
  /// Of the requests to a server.
  struct Counts {
    int64_t begun = 0;
    std::atomic<int64_t> answered = 0;
  };
  class Messages;

  /// The messages of a further request to `server`, once there may be one.
  std::unique_ptr<Messages> next_messages(Rank server);

  const Communicator& comm_;
  std::vector<std::shared_ptr<Counts>> counts_;  // by server
};

}  // namespace tw::parameter_server
