// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::parameter_server {

/// A rank's side of conversations with servers on other nodes: see Responder.
class Client {
 public:
  /// Requests to one server that it has not answered; a further one waits.
  static constexpr int most_under_way = 16;

  /// @param comm borrowed; the servers' responders are on it
  explicit Client(const Communicator& comm);

  /// Sends `part`. @param part contiguous, not empty. @param failure becomes what the rule threw, before the result is complete; logged if nobody
  /// else holds it then
  Work push(Rank server, size_t rule, const at::Tensor& part, const std::shared_ptr<std::string>& failure);
  /// Fills `part`. @param part contiguous, not empty
  Work pull(Rank server, const at::Tensor& part);
  /// Requests that are not answered, to all servers.
  int64_t under_way() const noexcept;

 private:
  struct Slot {
    int tag;
    std::weak_ptr<int> user = {};
  };

  /// A tag that no other request to `server` uses until the result dies.
  std::shared_ptr<int> take_tag(Rank server);

  const Communicator& comm_;
  std::vector<std::vector<Slot>> slots_;  // by server
};

}  // namespace tw::parameter_server
