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

// Functions named `..._transfer` make a transfer to pass to start(). They are collective, except those that send or receive messages. Memory must
// stay valid until completion. Reductions do not support float16 and bfloat16, which MPI does not have. For `average` they compute only the sum. min
// and max propagate NaN; sums and products of integers wrap around.

std::unique_ptr<Transfer> barrier_transfer(const Communicator& comm);
std::unique_ptr<Transfer> broadcast_transfer(const Communicator& comm, const Buffer& buffer, Rank root);
/// Reduces in place on all ranks.
std::unique_ptr<Transfer> allreduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op);
/// Reduces in place on `root`; `buffer` is unchanged on other ranks.
std::unique_ptr<Transfer> reduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op, Rank root);
/// @param output memory for `input.count` / comm.size() elements; must not overlap `input`.
std::unique_ptr<Transfer> reduce_scatter_transfer(const Communicator& comm, const Buffer& input, void* output, ReduceOp op);

/// Concatenates the `mine` of all ranks into `all`, in rank order. @param mine this rank's part of `all` itself, or separate memory; all ranks must
/// make the same choice. @param sizes bytes from each rank; the same list on every rank.
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
/// between sender and receiver; the message names both.
std::unique_ptr<Transfer> exchange_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives);

/// Memory that is sent to a rank, or that receives data from it.
struct PeerMemory {
  Rank peer;
  std::span<std::byte> memory;
};

/// Starts several messages of a collective at once. Cuts the messages into pieces that are small enough for MPI libraries to send without a
/// handshake. Messages with the same `sequence` between two ranks match in order; empty messages are not sent. Local.
/// @param sequence number that distinguishes the collectives in flight on `comm`; the same on all ranks of one collective
std::unique_ptr<Transfer> messages_transfer(const Communicator& comm, std::span<const PeerMemory> sends, std::span<const PeerMemory> receives,
                                            int64_t sequence);
/// Maximum number of sequences in flight on a communicator, limited by MPI's range of tags; may be 0.
int64_t max_sequences(const Communicator& comm) noexcept;

/// A message between two ranks that carries its dtype and size. The receiver's advance() throws ContractError if dtype or size differ from those of
/// the receiver's `buffer`.
std::unique_ptr<Transfer> send_transfer(const Communicator& comm, const Buffer& buffer, Rank to, Tag tag);
std::unique_ptr<Transfer> receive_transfer(const Communicator& comm, const Buffer& buffer, Rank from, Tag tag);

// Messages with a separate tag, which match no other messages. An operation uses them while it is in flight, whatever else is in flight on `comm`.
std::unique_ptr<Transfer> send_aside_transfer(const Communicator& comm, std::span<const std::byte> memory, Rank to);
std::unique_ptr<Transfer> receive_aside_transfer(const Communicator& comm, std::span<std::byte> memory, Rank from);

/// Concatenates the `mine` of all ranks, which have the same size, in messages with a separate tag. The n-th call on one rank matches the n-th call
/// on every other rank, whatever else is in flight on `comm`. Does not wait for other ranks.
std::unique_ptr<Transfer> audit_transfer(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);

// Blocking calls for the library's own small messages. They work on a copy: after an exception, MPI does not access the caller's memory.

/// Reduces in place.
void allreduce(const Communicator& comm, const Buffer& buffer, ReduceOp op);
void broadcast(const Communicator& comm, const Buffer& buffer, Rank root);
/// Concatenates the `mine` of all ranks, which have the same size, into `all`, in rank order. @param all mine.size() * comm.size() bytes.
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);
/// Like allgather() above, for different sizes. @param sizes bytes from each rank; their sum is all.size().
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int64_t> sizes);

}  // namespace tw::mpi
