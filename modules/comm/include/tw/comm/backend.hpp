// SPDX-License-Identifier: Apache-2.0
// How a collective gets done: by MPI, or through memory that the ranks of a node share. Memory is the host's: what lies on a device goes through
// pinned memory, in streams of its own.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// A collective as a backend gets it. Memory is contiguous and stays until completion.
struct BoundCall {
  Call call;
  const std::byte* input = nullptr;  ///< call.count elements
  /// allreduce, reduce, broadcast: `input` itself; alltoall: memory of its own; reduce_scatter: the same, or this rank's part of `input`; allgather:
  /// the same, or `input` is this rank's part of it.
  std::byte* output = nullptr;
};

/// One way to do collectives on one communicator.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Why it cannot do a `collective`; empty where it can. The same on all ranks.
  virtual std::string why_not(Collective collective) const = 0;
  /// Begins the call; does not wait.
  virtual std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call) = 0;
};

/// Whether a backend can do a collective, and if not, why.
struct Availability {
  Collective collective;
  std::string backend;
  std::string why_not;  ///< empty: available
  bool chosen = false;  ///< the one that calls go to
};

/// Every collective x backend on this communicator. Collective.
std::vector<Availability> availability(const Communicator& comm);

/// Sends the collectives of `comm` to the backend of this name where it can do them: "shared_memory" or "mpi". By default a collective goes to the
/// first in this order that can. Every rank must choose the same. Collective.
/// @param name nothing: the default. @throws ContractError for an unknown name.
void choose_backend(const Communicator& comm, std::optional<std::string> name);

/// Sizes of what the ranks of a node share.
struct SharedMemoryOptions {
  /// Bytes of a slot, of which every rank has two: how much a rank shows at a time of a tensor in ordinary memory. Larger slots wait less often; two
  /// slots of every rank should stay in the cache. A multiple of 64, at least 64 a rank.
  int64_t slot_bytes = int64_t{512} << 10;
  /// An all-reduce up to this many bytes is reduced by every rank for itself, which saves a wait in every round. Unset: any on two ranks, where it
  /// reads as much of the other's memory as exchanging halves does; 8 KiB on more.
  std::optional<int64_t> flat_bytes = {};
};

/// Replaces the default sizes. Collective; before the first collective on `comm`, with the same sizes on all ranks.
/// @throws ContractError on every rank where the sizes differ or are too small. @throws Error on every rank, naming the size, where a node cannot map
/// it: by its limits, not for want of memory, which is taken page by page as it is touched.
void prepare_shared_memory(const Communicator& comm, const SharedMemoryOptions& options);

}  // namespace tw
