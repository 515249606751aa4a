// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tw/mpi/caller.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>

namespace tw::parameter_server {

/// What one server holds of a tensor's memory, not nothing.
struct Part {
  at::Tensor of;  ///< keeps the memory
  std::span<std::byte> bytes;
};

/// A rank's requests to servers on other nodes, which take effect in their order on each.
class Client {
 public:
  /// @param comm borrowed; the servers' responders are on it
  explicit Client(const Communicator& comm) : comm_(comm), caller_(comm) {}

  /// Sends `part`. @param failure becomes what the rule threw, before the result is complete; logged if nobody else holds it then
  Work push(Rank server, size_t rule, const Part& part, const std::shared_ptr<std::string>& failure);
  /// Fills `part`.
  Work pull(Rank server, const Part& part);
  /// Requests that are not answered, to all servers.
  int64_t under_way() const noexcept { return caller_.under_way(); }

 private:
  const Communicator& comm_;
  mpi::Caller caller_;
};

}  // namespace tw::parameter_server
