// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <tw/mpi/rpc_client.hpp>
#include <utility>
#include <vector>

#include "runtime.hpp"

namespace tw::mpi {

/// Incoming requests, in order of arrival. Receives are always posted, so MPI delivers each request directly and its length need not be probed first.
class RpcRequests {
 public:
  using Memory = std::array<std::byte, RpcClient::max_request_bytes>;
  struct RpcRequest {
    int from = 0;
    size_t size = 0;
    std::unique_ptr<Memory> memory = {};
    std::span<const std::byte> bytes() const { return std::span(*memory).first(size); }
  };

  explicit RpcRequests(const CommunicatorState& comm) : comm_(comm) {}
  ~RpcRequests();  ///< requests not yet returned by next() are lost
  RpcRequests(const RpcRequests&) = delete;
  RpcRequests& operator=(const RpcRequests&) = delete;

  std::optional<RpcRequest> next();
  /// Reuses the memory of a finished request.
  void recycle(std::unique_ptr<Memory> memory) { spare_.push_back(std::move(memory)); }

 private:
  struct Receive {
    std::unique_ptr<Memory> memory;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void begin(Receive& receive);

  const CommunicatorState& comm_;
  std::array<Receive, RpcClient::max_in_flight> in_flight_;
  size_t oldest_ = 0;
  std::vector<std::unique_ptr<Memory>> spare_;
};

}  // namespace tw::mpi
