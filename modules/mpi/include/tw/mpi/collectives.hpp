// SPDX-License-Identifier: Apache-2.0
// MPI operations on raw memory of any length. The module `comm` wraps them for tensors; users need only that module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tw/base/call.hpp>
#include <tw/base/element.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>

namespace tw::mpi {

/// `count` elements of `type` in memory.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  ElementType type = ElementType::uint8;
};

// Each function makes a transfer to pass to `start()`. Collective, except send and receive. Memory must stay valid until completion.
// MPI cannot reduce float16 and bfloat16. `average` computes the sum. min and max propagate NaN; integers wrap around.

std::unique_ptr<Transfer> barrier_transfer(const Communicator& comm);
std::unique_ptr<Transfer> broadcast_transfer(const Communicator& comm, const Buffer& buffer, Rank root);
/// In place.
std::unique_ptr<Transfer> allreduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op);
/// In place on `root`; unchanged elsewhere.
std::unique_ptr<Transfer> reduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op, Rank root);
/// @param output `input.count` / size elements, must not overlap `input`.
std::unique_ptr<Transfer> reduce_scatter_transfer(const Communicator& comm, const Buffer& input, void* output, ReduceOp op);

/// Concatenates `mine` of all ranks. @param mine its place in `all`, or memory elsewhere; the same choice on all ranks.
/// @param sizes bytes by rank, the same list on every rank.
std::unique_ptr<Transfer> allgather_transfer(const Communicator& comm, std::span<const std::byte> mine, std::byte* all,
                                             std::span<const int64_t> sizes);
/// Sends the r-th block of `bytes` bytes of `input` to rank r. The block from rank q becomes the q-th block of `output`.
std::unique_ptr<Transfer> alltoall_transfer(const Communicator& comm, const std::byte* input, std::byte* output, int64_t bytes);

/// A tensor's memory that is sent to a rank or receives data from it.
struct PeerBuffer {
  Rank peer;
  Buffer buffer;
};

/// A collective that consists of messages: all-to-all of unequal sizes, gather, scatter. Each message carries its collective, dtype and size.
/// Messages between two ranks of one communicator match in call order. @throws ContractError, from advance(), if collective, dtype or size differ
/// between sender and receiver; it names both.
std::unique_ptr<Transfer> exchange_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives);

/// Memory that is sent to a rank, or that receives data from it.
struct PeerMemory {
  Rank peer;
  std::span<std::byte> memory;
};

/// The messages of such a collective, all at once, in pieces small enough that MPI libraries send them without a handshake. Messages of one
/// `sequence` between two ranks match in order; empty ones are not sent. Local.
/// @param sequence number of the collective among those of `comm` that consist of messages, the same on all ranks
std::unique_ptr<Transfer> messages_transfer(const Communicator& comm, std::span<const PeerMemory> sends, std::span<const PeerMemory> receives,
                                            int64_t sequence);
/// Maximum number of such collectives in flight on a communicator, which MPI's range of tags limits. May be 0.
int64_t max_sequences(const Communicator& comm) noexcept;

/// A message that carries its dtype and size. @throws ContractError, from the receiver's advance(), if they differ from those of `buffer`
std::unique_ptr<Transfer> send_transfer(const Communicator& comm, const Buffer& buffer, Rank to, Tag tag);
std::unique_ptr<Transfer> receive_transfer(const Communicator& comm, const Buffer& buffer, Rank from, Tag tag);

// Messages that match no other kind. An operation in flight uses them to communicate, whatever else is in flight on `comm`.
std::unique_ptr<Transfer> send_aside_transfer(const Communicator& comm, std::span<const std::byte> memory, Rank to);
std::unique_ptr<Transfer> receive_aside_transfer(const Communicator& comm, std::span<std::byte> memory, Rank from);

/// Concatenates equal-sized `mine` of all ranks, in messages that match no other kind. The n-th call on one rank matches the n-th call on every other
/// rank, whatever else is in flight on `comm`. Returns at once on every rank.
std::unique_ptr<Transfer> audit_transfer(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);

// For the library's own small messages; complete on return. They work on a copy, so that your memory is not accessed after an exception.

/// Reduces in place.
void allreduce(const Communicator& comm, const Buffer& buffer, ReduceOp op);
void broadcast(const Communicator& comm, const Buffer& buffer, Rank root);
/// Concatenates equal-sized `mine` of all ranks into `all`, in rank order. @param all mine.size() * comm.size() bytes.
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);
/// The same with a size per rank. @param sizes bytes of each rank; their sum is all.size().
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int64_t> sizes);

}  // namespace tw::mpi
