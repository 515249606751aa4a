// SPDX-License-Identifier: Apache-2.0
#include "rpc_requests.hpp"

#include <tw/mpi/error.hpp>

#include "rpc_protocol.hpp"

namespace tw::mpi {

RpcRequests::~RpcRequests() {
  for (Receive& each : in_flight_) {
    if (each.request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&each.request);
    MPI_Wait(&each.request, MPI_STATUS_IGNORE);
  }
}

std::optional<RpcRequests::RpcRequest> RpcRequests::next() {
  Receive& oldest = in_flight_[oldest_];
  if (oldest.request == MPI_REQUEST_NULL) {  // first call of next()
    for (Receive& each : in_flight_) begin(each);
  }
  int done = 0;
  MPI_Status status;
  check(MPI_Test(&oldest.request, &done, &status), "MPI_Test", comm_.name);
  if (done == 0) return std::nullopt;
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", comm_.name);
  RpcRequest request{status.MPI_SOURCE, static_cast<size_t>(bytes), std::move(oldest.memory)};
  begin(oldest);
  oldest_ = (oldest_ + 1) % in_flight_.size();
  return request;
}

void RpcRequests::begin(Receive& receive) {
  if (spare_.empty()) {
    receive.memory = std::make_unique<Memory>();
  } else {
    receive.memory = std::move(spare_.back());
    spare_.pop_back();
  }
  check(MPI_Irecv(receive.memory->data(), static_cast<int>(receive.memory->size()), MPI_BYTE, MPI_ANY_SOURCE, rpc::request_tag, comm_.handle,
                  &receive.request),
        "MPI_Irecv", comm_.name);
}

}  // namespace tw::mpi
