// SPDX-License-Identifier: Apache-2.0
#include "bench_operations.hpp"

#include <tw/comm/collectives.hpp>
#include <tw/mpi/error.hpp>
#include <tw/mpi/interop.hpp>

namespace tw::tool {
namespace {

constexpr int root = 0;

// Ping-pong is played by ranks 0 and 1, 2 and 3...; the last of an odd number has no partner, and nothing to do.
int partner_of(const Communicator& comm) { return comm.rank() ^ 1; }
bool has_partner(const Communicator& comm) { return partner_of(comm) < comm.size(); }
bool serves(const Communicator& comm) { return comm.rank() % 2 == 0; }

int call_mpi_itself(const Communicator& comm, Collective operation, const BenchData& data) {
  const MPI_Comm native = native_handle(comm);
  void* input = data.input.defined() ? data.input.data_ptr() : nullptr;
  void* output = data.output.defined() ? data.output.data_ptr() : nullptr;
  const int count = data.input.defined() ? static_cast<int>(data.input.numel()) : 0;
  const int part = count / comm.size();
  switch (operation) {
    case Collective::barrier: return MPI_Barrier(native);
    case Collective::broadcast: return MPI_Bcast(input, count, MPI_FLOAT, root, native);
    case Collective::allreduce: return MPI_Allreduce(MPI_IN_PLACE, input, count, MPI_FLOAT, MPI_SUM, native);
    case Collective::reduce:
      if (comm.rank() == root) return MPI_Reduce(MPI_IN_PLACE, input, count, MPI_FLOAT, MPI_SUM, root, native);
      return MPI_Reduce(input, nullptr, count, MPI_FLOAT, MPI_SUM, root, native);
    case Collective::allgather: return MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, native);
    case Collective::reduce_scatter: return MPI_Reduce_scatter_block(input, output, part, MPI_FLOAT, MPI_SUM, native);
    case Collective::alltoall: return MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT, native);
    default: break;
  }
  if (!has_partner(comm)) return MPI_SUCCESS;
  const auto send_it = [&](const void* from) { return MPI_Send(from, count, MPI_FLOAT, partner_of(comm), 0, native); };
  const auto receive_it = [&] { return MPI_Recv(output, count, MPI_FLOAT, partner_of(comm), 0, native, MPI_STATUS_IGNORE); };
  const int code = serves(comm) ? send_it(input) : receive_it();
  if (code != MPI_SUCCESS) return code;
  return serves(comm) ? receive_it() : send_it(output);
}

}  // namespace

BenchData make_bench_data(Collective operation, int64_t bytes, int ranks, const MakeFloats& make) {
  const int64_t floats = bytes / 4;
  switch (operation) {
    case Collective::barrier: return {};
    case Collective::allgather: return {make(floats / ranks), make(floats)};
    case Collective::reduce_scatter: return {make(floats), make(floats / ranks)};
    case Collective::alltoall:
    case Collective::send: return {make(floats), make(floats)};
    default: return {make(floats), {}};
  }
}

void call_torchweave(const Communicator& comm, Collective operation, const BenchData& data) {
  switch (operation) {
    case Collective::barrier: return barrier(comm);
    case Collective::broadcast: return broadcast(comm, data.input, Rank(root));
    case Collective::allreduce: return allreduce(comm, data.input, ReduceOp::sum);
    case Collective::reduce: return reduce(comm, data.input, ReduceOp::sum, Rank(root));
    case Collective::allgather: return allgather(comm, data.input, data.output);
    case Collective::reduce_scatter: return reduce_scatter(comm, data.input, data.output, ReduceOp::sum);
    case Collective::alltoall: return alltoall(comm, data.input, data.output);
    default: break;
  }
  if (!has_partner(comm)) return;
  const Rank partner(partner_of(comm));
  if (serves(comm)) {
    send(comm, data.input, partner);
    recv(comm, data.output, partner);
  } else {
    recv(comm, data.output, partner);
    send(comm, data.output, partner);
  }
}

void call_mpi(const Communicator& comm, Collective operation, const BenchData& data) {
  const int code = call_mpi_itself(comm, operation, data);
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<size_t>(length));
  throw MpiError(std::string(name_of(operation)) + " by MPI's own call", code, text, comm.name());
}

}  // namespace tw::tool
