// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/collectives.hpp>

#include <algorithm>
#include <array>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/mpi/error.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/start_queue.hpp>

#include "labelled.hpp"
#include "one_call.hpp"
#include "transfer_requests.hpp"

namespace tw::mpi {
namespace {

MPI_Datatype native(ElementType type) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8: return MPI_UINT8_T;
    case ElementType::int8: return MPI_INT8_T;
    case ElementType::int16: return MPI_INT16_T;
    case ElementType::int32: return MPI_INT32_T;
    case ElementType::int64: return MPI_INT64_T;
    case ElementType::float32: return MPI_FLOAT;
    case ElementType::float64: return MPI_DOUBLE;
    case ElementType::complex64: return MPI_C_FLOAT_COMPLEX;
    case ElementType::complex128: return MPI_C_DOUBLE_COMPLEX;
    case ElementType::float16:
    case ElementType::bfloat16: break;
  }
  TW_ASSERT(false);  // MPI has no 16-bit floats; `comm` reduces them as float32
  return MPI_DATATYPE_NULL;
}

MPI_Op operation_for(const Communicator& comm, ReduceOp op, ElementType type) { return comm.state()->runtime->operations().find(op, type); }

/// Buffers that a blocking call works in instead of its caller's memory. After a failure or revocation MPI may write into them long after the caller
/// has unwound. The engine then keeps them alive.
struct Staged {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
};

/// Waits for the transfer that `make` starts; it works in `staged`.
void wait_for(const Communicator& comm, const Call& call, StartQueue::Start make, const std::shared_ptr<Staged>& staged) {
  start(comm, call, collective_queue(comm).start(comm, std::move(make)), [staged] {}).wait();
}

// For calls that work in place.
std::shared_ptr<Staged> stage(const Buffer& buffer) {
  const Buffer memory = raw(buffer);
  return std::make_shared<Staged>(Staged{.input = {}, .output = {bytes(memory.data), bytes(memory.data) + memory.count}});
}

/// A collective made of messages, used where the data is too long for one MPI call. It needs a separate tag: ranks start it in the order of MPI's
/// collectives, so it may have to wait where other messages need not. Empty buffers send no message.
std::unique_ptr<Transfer> cut_exchange(const Communicator& comm, std::span<const std::span<const std::byte>> to,
                                       std::span<const std::span<std::byte>> from) {
  auto requests = std::make_unique<TransferRequests>(comm);
  for (int i = 0; i < comm.size(); ++i) {  // each rank starts with a different peer
    const int rank = (comm.rank() + i) % comm.size();
    const auto at = static_cast<size_t>(rank);
    requests->receive(raw(from[at]), rank, cut_tag);
    requests->send(raw(to[at]), rank, cut_tag);
  }
  return requests;
}

}  // namespace

std::unique_ptr<Transfer> barrier_transfer(const Communicator& comm) {
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->add("MPI_Ibarrier", [&](MPI_Request* request) { return MPI_Ibarrier(requests->comm().handle, request); });
  return requests;
}

std::unique_ptr<Transfer> broadcast_transfer(const Communicator& comm, const Buffer& buffer, Rank root) {
  expect_rank(comm, root);
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->add("MPI_Ibcast", raw(buffer), [&](void* piece, int count, MPI_Request* request) {
    return MPI_Ibcast(piece, count, MPI_BYTE, root, requests->comm().handle, request);
  });
  return requests;
}

std::unique_ptr<Transfer> allreduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op) {
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->add("MPI_Iallreduce", buffer, [&](void* piece, int count, MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, piece, count, native(buffer.type), operation_for(comm, op, buffer.type), requests->comm().handle, request);
  });
  return requests;
}

std::unique_ptr<Transfer> reduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op, Rank root) {
  expect_rank(comm, root);
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->add("MPI_Ireduce", buffer, [&](void* piece, int count, MPI_Request* request) {
    const bool at_root = comm.rank() == root;
    return MPI_Ireduce(at_root ? MPI_IN_PLACE : piece, at_root ? piece : nullptr, count, native(buffer.type), operation_for(comm, op, buffer.type),
                       root, requests->comm().handle, request);
  });
  return requests;
}

std::unique_ptr<Transfer> reduce_scatter_transfer(const Communicator& comm, const Buffer& input, void* output, ReduceOp op) {
  auto requests = std::make_unique<TransferRequests>(comm);
  const int64_t part = input.count / comm.size();
  const int64_t part_bytes = part * element_bytes(input.type);
  if (fits_one_call(part, comm.size(), comm.state()->runtime->largest_message())) {
    requests->add("MPI_Ireduce_scatter_block", [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(input.data, output, static_cast<int>(part), native(input.type), operation_for(comm, op, input.type),
                                       requests->comm().handle, request);
    });
    return requests;
  }
  for (int root = 0; root < comm.size(); ++root) {  // too long for one call: one reduction per root. Each piece has the same offset in input and
                                                    // output
    const Buffer of_root{bytes(input.data) + root * part_bytes, part, input.type};
    requests->add("MPI_Ireduce", of_root, [&](void* piece, int count, MPI_Request* request) {
      void* result = bytes(output) + (bytes(piece) - bytes(of_root.data));
      return MPI_Ireduce(piece, result, count, native(input.type), operation_for(comm, op, input.type), root, requests->comm().handle, request);
    });
  }
  return requests;
}

std::unique_ptr<Transfer> allgather_transfer(const Communicator& comm, std::span<const std::byte> mine, std::byte* all,
                                             std::span<const int64_t> sizes) {
  TW_EXPECTS(sizes.size() == static_cast<size_t>(comm.size()), "allgather needs one size for each rank, got ", sizes.size());
  TW_EXPECTS(sizes[static_cast<size_t>(int{comm.rank()})] == static_cast<int64_t>(mine.size()), "allgather expects ",
             sizes[static_cast<size_t>(int{comm.rank()})], " bytes from rank ", comm.rank(), ", got ", mine.size());
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const bool lies_in_place = !mine.empty() && mine.data() == all + std::accumulate(sizes.begin(), sizes.begin() + comm.rank(), int64_t{0});
  if (total > comm.state()->runtime->largest_message()) {  // too long for one call: as messages, which can be cut. `sizes` agree on all ranks, so all
                                                           // ranks come here
    std::vector<std::span<const std::byte>> to(sizes.size(), mine);
    std::vector<std::span<std::byte>> from;
    for (std::byte* at = all; const int64_t size : sizes) {
      from.emplace_back(at, static_cast<size_t>(size));
      at += size;
    }
    if (lies_in_place) {
      const auto here = static_cast<size_t>(int{comm.rank()});
      to[here] = {};
      from[here] = {};
    }
    return cut_exchange(comm, to, from);
  }
  auto requests = std::make_unique<TransferRequests>(comm);
  std::vector<int>& numbers = requests->kept;  // sizes, then offsets
  numbers.assign(sizes.begin(), sizes.end());
  numbers.resize(2 * sizes.size());
  std::exclusive_scan(numbers.begin(), numbers.begin() + comm.size(), numbers.begin() + comm.size(), 0);
  requests->add("MPI_Iallgatherv", [&](MPI_Request* request) {
    const void* input = lies_in_place ? MPI_IN_PLACE : mine.data();
    return MPI_Iallgatherv(input, static_cast<int>(mine.size()), MPI_BYTE, all, numbers.data(), numbers.data() + comm.size(), MPI_BYTE,
                           requests->comm().handle, request);
  });
  return requests;
}

std::unique_ptr<Transfer> alltoall_transfer(const Communicator& comm, const std::byte* input, std::byte* output, int64_t bytes_each) {
  if (!fits_one_call(bytes_each, comm.size(), comm.state()->runtime->largest_message())) {
    std::vector<std::span<const std::byte>> to;
    std::vector<std::span<std::byte>> from;
    for (int rank = 0; rank < comm.size(); ++rank) {
      to.emplace_back(input + rank * bytes_each, static_cast<size_t>(bytes_each));
      from.emplace_back(output + rank * bytes_each, static_cast<size_t>(bytes_each));
    }
    return cut_exchange(comm, to, from);
  }
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->add("MPI_Ialltoall", [&](MPI_Request* request) {
    const int count = static_cast<int>(bytes_each);
    return MPI_Ialltoall(input, count, MPI_BYTE, output, count, MPI_BYTE, requests->comm().handle, request);
  });
  return requests;
}

std::unique_ptr<Transfer> exchange_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives) {
  return labelled_transfer(comm, collective, sends, receives, exchange_tag);
}

std::unique_ptr<Transfer> messages_transfer(const Communicator& comm, std::span<const PeerMemory> sends, std::span<const PeerMemory> receives,
                                            int64_t sequence) {
  auto requests = std::make_unique<TransferRequests>(comm);
  const int tag = first_sequence_tag + static_cast<int>(sequence % max_sequences(comm));
  // MPI sends a small message eagerly. A larger one waits for its receiver's reply, which queues after everything the receiver is sending. Two ranks
  // that exchanged 8 MiB over TCP serialised in about every second run.
  constexpr size_t sent_at_once = size_t{32} << 10;
  const auto in_pieces = [sent_at_once](std::span<std::byte> all, const auto& call) {
    for (; !all.empty(); all = all.subspan(std::min(sent_at_once, all.size()))) call(all.first(std::min(sent_at_once, all.size())));
  };
  for (const PeerMemory& receive : receives) in_pieces(receive.memory, [&](auto memory) { requests->receive(raw(memory), receive.peer, tag); });
  for (const PeerMemory& send : sends) in_pieces(send.memory, [&](auto memory) { requests->send(raw(memory), send.peer, tag); });
  return requests;
}

int64_t max_sequences(const Communicator& comm) noexcept { return std::max(0, comm.state()->runtime->largest_tag() - first_sequence_tag + 1); }

std::unique_ptr<Transfer> send_transfer(const Communicator& comm, const Buffer& buffer, Rank to, Tag tag) {
  expect_rank(comm, to);
  TW_EXPECTS(tag >= 0 && tag <= Tag::largest, "a tag must be from 0 to ", Tag::largest, ", got ", tag);
  return labelled_transfer(comm, Collective::send, std::array{PeerBuffer{to, buffer}}, {}, tag);
}

std::unique_ptr<Transfer> receive_transfer(const Communicator& comm, const Buffer& buffer, Rank from, Tag tag) {
  expect_rank(comm, from);
  TW_EXPECTS(tag >= 0 && tag <= Tag::largest, "a tag must be from 0 to ", Tag::largest, ", got ", tag);
  return labelled_transfer(comm, Collective::send, {}, std::array{PeerBuffer{from, buffer}}, tag);
}

std::unique_ptr<Transfer> send_aside_transfer(const Communicator& comm, std::span<const std::byte> memory, Rank to) {
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->send(raw(memory), to, aside_tag);
  return requests;
}

std::unique_ptr<Transfer> receive_aside_transfer(const Communicator& comm, std::span<std::byte> memory, Rank from) {
  auto requests = std::make_unique<TransferRequests>(comm);
  requests->receive(raw(memory), from, aside_tag);
  return requests;
}

std::unique_ptr<Transfer> audit_transfer(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all) {
  auto requests = std::make_unique<TransferRequests>(comm);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const std::span<std::byte> theirs = all.subspan(static_cast<size_t>(rank) * mine.size(), mine.size());
    if (rank == comm.rank()) {
      std::ranges::copy(mine, theirs.begin());
    } else {
      requests->receive(raw(theirs), rank, audit_tag);
      requests->send(raw(mine), rank, audit_tag);
    }
  }
  return requests;
}

void allreduce(const Communicator& comm, const Buffer& buffer, ReduceOp op) {
  const auto staged = stage(buffer);
  wait_for(
      comm, {.collective = Collective::allreduce, .op = op, .type = buffer.type, .count = buffer.count},
      [=](const Communicator& of) { return allreduce_transfer(of, {staged->output.data(), buffer.count, buffer.type}, op); }, staged);
  std::copy(staged->output.begin(), staged->output.end(), bytes(buffer.data));
}

void broadcast(const Communicator& comm, const Buffer& buffer, Rank root) {
  const auto staged = stage(buffer);
  wait_for(
      comm, {.collective = Collective::broadcast, .type = buffer.type, .peer = root, .count = buffer.count},
      [=](const Communicator& of) { return broadcast_transfer(of, {staged->output.data(), buffer.count, buffer.type}, root); }, staged);
  std::copy(staged->output.begin(), staged->output.end(), bytes(buffer.data));
}

void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all) {
  const std::vector<int64_t> sizes(static_cast<size_t>(comm.size()), static_cast<int64_t>(mine.size()));
  allgather(comm, mine, all, sizes);
}

void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int64_t> sizes) {
  const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  TW_EXPECTS(static_cast<int64_t>(all.size()) == total, "allgather needs a buffer of ", total, " bytes, got ", all.size());
  const auto staged =
      std::make_shared<Staged>(Staged{.input = {mine.begin(), mine.end()}, .output = std::vector<std::byte>(static_cast<size_t>(total))});
  // Sizes may differ between calls and ranks, so the count is not part of what the ranks compare.
  const auto make = [staged, sizes = std::vector(sizes.begin(), sizes.end())](const Communicator& of) {
    return allgather_transfer(of, staged->input, staged->output.data(), sizes);
  };
  wait_for(comm, {.collective = Collective::allgather}, make, staged);
  std::copy(staged->output.begin(), staged->output.end(), all.begin());
}

}  // namespace tw::mpi
