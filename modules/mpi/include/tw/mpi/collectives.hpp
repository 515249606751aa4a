// SPDX-License-Identifier: Apache-2.0
// MPI's own operations on raw memory, of any length. `comm` wraps them for tensors; users want that one.
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

// Each begins an operation, to be given to `start()`. Collective, except send and receive. Memory must stay until completion.
// float16 and bfloat16 cannot be reduced by MPI; `average` is its sum. NaN comes out of min and max where it goes in; integers wrap around.

std::unique_ptr<Transfer> barrier_transfer(const Communicator& comm);
std::unique_ptr<Transfer> broadcast_transfer(const Communicator& comm, const Buffer& buffer, Rank root);
/// In place.
std::unique_ptr<Transfer> allreduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op);
/// In place on `root`; unchanged elsewhere.
std::unique_ptr<Transfer> reduce_transfer(const Communicator& comm, const Buffer& buffer, ReduceOp op, Rank root);
/// @param output `input.count` / size elements, outside of `input`.
std::unique_ptr<Transfer> reduce_scatter_transfer(const Communicator& comm, const Buffer& input, void* output, ReduceOp op);

/// Concatenates `mine` of all ranks. @param mine on all ranks its place in `all`, or memory elsewhere.
/// @param sizes bytes by rank, the same list on every rank.
std::unique_ptr<Transfer> allgather_transfer(const Communicator& comm, std::span<const std::byte> mine, std::byte* all,
                                             std::span<const int64_t> sizes);
/// Rank r gets the r-th `bytes` of `input`, and puts what it gets from rank q at the q-th of `output`.
std::unique_ptr<Transfer> alltoall_transfer(const Communicator& comm, const std::byte* input, std::byte* output, int64_t bytes);

/// A tensor's memory that goes to a rank, or that is filled from there.
struct PeerBuffer {
  Rank peer;
  Buffer buffer;
};

/// Messages of a collective that is made of them: all-to-all of unequal sizes, gather, scatter. Each says what it holds. Of two ranks, those of one
/// communicator pair off in the order of the calls. @throws ContractError, from advance(), where sender and receiver give another collective, dtype
/// or size; it names both.
std::unique_ptr<Transfer> exchange_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives);

/// What goes to a rank, or where what comes from it goes.
struct PeerMemory {
  Rank peer;
  std::span<std::byte> memory;
};

/// Messages of a collective that is made of them, all at once, in pieces that MPIs send without asking. Of two ranks those of one `sequence` pair off
/// in their order; nothing travels for an empty one. Local.
/// @param sequence the number of the collective among those of `comm` that are made of messages, the same on all ranks
std::unique_ptr<Transfer> messages_transfer(const Communicator& comm, std::span<const PeerMemory> sends, std::span<const PeerMemory> receives,
                                            int64_t sequence);
/// How many such collectives may be in flight on a communicator: MPI's tags tell them apart. May be 0.
int64_t most_sequences(const Communicator& comm) noexcept;

/// A message that says what it holds. @throws ContractError, from the receiver's advance(), where that is not of the dtype and size of `buffer`
std::unique_ptr<Transfer> send_transfer(const Communicator& comm, const Buffer& buffer, Rank to, Tag tag);
std::unique_ptr<Transfer> receive_transfer(const Communicator& comm, const Buffer& buffer, Rank from, Tag tag);

// Messages that no other kind can meet: what an operation has to say while it is in flight, whatever else is in flight on `comm`.
std::unique_ptr<Transfer> send_aside_transfer(const Communicator& comm, std::span<const std::byte> memory, Rank to);
std::unique_ptr<Transfer> receive_aside_transfer(const Communicator& comm, std::span<std::byte> memory, Rank from);

/// Concatenates `mine` of all ranks, of one size, in messages that only the same call on other ranks receives. The n-th call of one rank meets the n-th
/// of every other, whatever else is in flight on `comm`. Returns at once on every rank.
std::unique_ptr<Transfer> audit_transfer(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);

// For the library's own small messages; complete on return. They work in a copy, so that memory is never touched once they have thrown.

/// Reduces in place.
void allreduce(const Communicator& comm, const Buffer& buffer, ReduceOp op);
void broadcast(const Communicator& comm, const Buffer& buffer, Rank root);
/// Concatenates equal-sized `mine` of all ranks into `all`, in rank order. @param all mine.size() * comm.size() bytes.
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);
/// The same with a size per rank. @param sizes bytes of each rank; their sum is all.size().
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int64_t> sizes);

}  // namespace tw::mpi
