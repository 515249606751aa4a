// SPDX-License-Identifier: Apache-2.0
// Collectives on raw memory. `comm` wraps them for tensors; users want that one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/datatype.hpp>
#include <tw/mpi/request.hpp>

namespace tw::mpi {

/// A buffer of `count` elements, at most 2^31 - 1.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  Datatype datatype = Datatype::uint8;
};

/// Reduces `buffer` element by element over all ranks, in place. Collective.
void allreduce(const Communicator& comm, const Buffer& buffer, Op op);

/// Starts the same. @param keep_alive whatever owns the memory; released on completion.
Request iallreduce(const Communicator& comm, const Buffer& buffer, Op op, std::shared_ptr<void> keep_alive);

/// Copies `buffer` of `root` to all ranks. Collective.
void broadcast(const Communicator& comm, const Buffer& buffer, Rank root);

/// Starts the same. @param keep_alive whatever owns the memory; released on completion.
Request ibroadcast(const Communicator& comm, const Buffer& buffer, Rank root, std::shared_ptr<void> keep_alive);

/// Concatenates equal-sized `mine` of all ranks into `all`, in rank order. Collective.
/// @param all mine.size() * comm.size() bytes.
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all);

/// The same with a size per rank. @param sizes bytes of each rank; their sum is all.size().
void allgather(const Communicator& comm, std::span<const std::byte> mine, std::span<std::byte> all, std::span<const int> sizes);

}  // namespace tw::mpi
