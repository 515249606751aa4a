// SPDX-License-Identifier: Apache-2.0
#include "transfer_requests.hpp"

#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>

#include "requests.hpp"

namespace tw::mpi {

TransferRequests::TransferRequests(const Communicator& comm) : comm_(*comm.state()) {
  expect_own_thread(comm);
  expect_not_revoked(comm_, "the start of an operation");
  ++comm_.traffic.open;
}

void TransferRequests::send(const Buffer& buffer, int to, int tag) {
  const size_t before = requests_.size();
  const auto begin = [&](void* piece, int count, MPI_Request* request) { return MPI_Isend(piece, count, MPI_BYTE, to, tag, comm_.handle, request); };
  add("MPI_Isend", buffer, begin, to);
  comm_.traffic.sent += static_cast<int64_t>(requests_.size() - before);
}

void TransferRequests::receive(const Buffer& buffer, int from, int tag) {
  const auto begin = [&](void* piece, int count, MPI_Request* request) {
    begun_.back().is_received = true;
    return MPI_Irecv(piece, count, MPI_BYTE, from, tag, comm_.handle, request);
  };
  add("MPI_Irecv", buffer, begin, from);
}

bool TransferRequests::advance() {
  const auto count = static_cast<int>(requests_.size());
  statuses_.resize(requests_.size());
  int done = 0;
  const int code = count == 1 ? MPI_Test(requests_.data(), &done, statuses_.data()) : MPI_Testall(count, requests_.data(), &done, statuses_.data());
  if (code != MPI_SUCCESS) fail(code);
  if (done == 0) return false;
  for (size_t request = 0; request < requests_.size(); ++request) expect_whole(request);
  --comm_.traffic.open;
  return true;
}

void TransferRequests::expect_whole(size_t request) {
  const Begun& begun = begun_[request];
  if (!begun.is_received) return;
  int count = 0;
  check(MPI_Get_count(&statuses_[request], MPI_BYTE, &count), "MPI_Get_count", comm_.name);
  TW_EXPECTS(count == begun.bytes, "rank ", begun.peer, " of '", comm_.name, "' sent ", count, " bytes where rank ", comm_.rank, " expects ",
             begun.bytes, ": all ranks must make the same call with the same sizes");
  ++comm_.traffic.received;
}

// Names the request that failed, which the statuses of MPI_Testall() identify.
void TransferRequests::fail(int code) const {
  const auto is_failed = [](const MPI_Status& status) { return status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING; };
  const auto first = std::find_if(statuses_.begin(), statuses_.end(), is_failed);
  const size_t failed = statuses_.size() == 1 || first == statuses_.end() ? 0 : static_cast<size_t>(first - statuses_.begin());
  if (code == MPI_ERR_IN_STATUS && first != statuses_.end()) code = first->MPI_ERROR;
  const Begun& begun = begun_[failed];
  const std::string what =
      begun.peer < 0 ? begun.call : concat(begun.call, " of ", begun.bytes, " bytes ", begun.is_received ? "from" : "to", " rank ", begun.peer);
  check(code, what.c_str(), comm_.name);
}

}  // namespace tw::mpi
