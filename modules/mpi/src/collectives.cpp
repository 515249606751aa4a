// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <limits>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>

namespace tw::mpi {
namespace {

MPI_Datatype native(Datatype datatype) {
  switch (datatype) {
    case Datatype::uint8: return MPI_UINT8_T;
    case Datatype::int8: return MPI_INT8_T;
    case Datatype::int16: return MPI_INT16_T;
    case Datatype::int32: return MPI_INT32_T;
    case Datatype::int64: return MPI_INT64_T;
    case Datatype::float32: return MPI_FLOAT;
    case Datatype::float64: return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op native(Op op) {
  switch (op) {
    case Op::sum: return MPI_SUM;
    case Op::min: return MPI_MIN;
    case Op::max: return MPI_MAX;
  }
  return MPI_OP_NULL;
}

int narrow_count(int64_t count) {
  TW_EXPECTS(count >= 0 && count <= std::numeric_limits<int>::max(), "one message holds at most 2^31 - 1 elements, got ", count);
  return static_cast<int>(count);
}

void check_root(const Communicator& comm, Rank root) {
  TW_EXPECTS(root >= 0 && root < comm.size(), "root ", root, " is not a rank of '", comm.name(), "', which has ", comm.size());
}

std::unique_ptr<RequestState> start(const Communicator& comm, const char* call, std::shared_ptr<void> keep_alive) {
  auto request = std::make_unique<RequestState>();
  request->call = call;
  request->communicator = comm.name();
  request->keep_alive = std::move(keep_alive);
  request->runtime = comm.state().runtime;
  request->runtime->reap();
  return request;
}

}  // namespace

void allreduce(const Communicator& comm, const Buffer& buffer, Op op) {
  check(MPI_Allreduce(MPI_IN_PLACE, buffer.data, narrow_count(buffer.count), native(buffer.datatype), native(op), comm.state().handle),
        "MPI_Allreduce", comm.name());
}

Request iallreduce(const Communicator& comm, const Buffer& buffer, Op op, std::shared_ptr<void> keep_alive) {
  auto request = start(comm, "MPI_Iallreduce", std::move(keep_alive));
  check(MPI_Iallreduce(MPI_IN_PLACE, buffer.data, narrow_count(buffer.count), native(buffer.datatype), native(op), comm.state().handle,
                       &request->handle),
        request->call, comm.name());
  return Request(std::move(request));
}

void broadcast(const Communicator& comm, const Buffer& buffer, Rank root) {
  check_root(comm, root);
  check(MPI_Bcast(buffer.data, narrow_count(buffer.count), native(buffer.datatype), root, comm.state().handle), "MPI_Bcast", comm.name());
}

Request ibroadcast(const Communicator& comm, const Buffer& buffer, Rank root, std::shared_ptr<void> keep_alive) {
  check_root(comm, root);
  auto request = start(comm, "MPI_Ibcast", std::move(keep_alive));
  check(MPI_Ibcast(buffer.data, narrow_count(buffer.count), native(buffer.datatype), root, comm.state().handle, &request->handle), request->call,
        comm.name());
  return Request(std::move(request));
}

void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all) {
  TW_EXPECTS(all.size() == mine.size() * static_cast<size_t>(comm.size()), "allgather needs ", mine.size(), " bytes per rank, got ", all.size());
  const int count = narrow_count(static_cast<int64_t>(mine.size()));
  check(MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, comm.state().handle), "MPI_Allgather", comm.name());
}

void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int> sizes) {
  TW_EXPECTS(sizes.size() == static_cast<size_t>(comm.size()), "allgather needs one size per rank, got ", sizes.size());
  std::vector<int> offsets(sizes.size());
  int64_t total = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    offsets[rank] = narrow_count(total);
    total += sizes[rank];
  }
  TW_EXPECTS(static_cast<int64_t>(all.size()) == total, "allgather needs room for ", total, " bytes, got ", all.size());
  check(MPI_Allgatherv(mine.data(), narrow_count(static_cast<int64_t>(mine.size())), MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
                       comm.state().handle),
        "MPI_Allgatherv", comm.name());
}

}  // namespace tw::mpi
