// SPDX-License-Identifier: Apache-2.0
// How a collective is executed: by MPI's collectives, by algorithms over messages, or through memory that the ranks of a node share. Device tensors
// use the same backends, staged through pinned host memory, unless a backend accesses the device's memory directly.
#pragma once
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tw/algorithms/selection.hpp>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// How an operation accesses tensors on a device.
enum class Passage {
  staged,     ///< copied through pinned host memory
  direct,     ///< in device memory, after the current stream's work in flight has completed
  in_stream,  ///< in device memory, by work on a stream; the host does not wait
};

/// A collective as passed to a backend. Memory is contiguous and stays allocated until completion. It is host memory if Backend::passage() is
/// `staged`, otherwise device memory.
struct BoundCall {
  Call call;
  const std::byte* input = nullptr;  ///< the elements of moved()
  /// allreduce, reduce, broadcast: `input` itself. alltoall: separate memory. reduce_scatter: separate memory, or this rank's part of `input`.
  /// allgather: separate memory, or `input` is this rank's part of it.
  std::byte* output = nullptr;
  std::optional<c10::Stream> stream = {};  ///< the operation's stream, for device memory
  std::optional<CallPart> part = {};       ///< the part that `input` and `output` belong to, if the call is split into parts
};

/// What to execute: the part if the call is split, otherwise the call.
inline const Call& moved(const BoundCall& bound) { return bound.part ? bound.part->moved : bound.call; }

/// One implementation of collectives on one communicator.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// How it accesses device tensors; `staged` for a backend that works in host memory.
  virtual Passage passage() const noexcept { return Passage::staged; }
  /// To be called before the first call on tensors of `device`. Collective.
  virtual void prepare([[maybe_unused]] const Communicator& comm, [[maybe_unused]] c10::Device device) {}
  /// Why it does not support `call`; empty if it does. The same on all ranks. For backends in host memory this depends only on the collective.
  virtual std::string why_not(const Call& call) const = 0;
  /// Whether it is a good default for a `call` that it supports. If not, it runs only if it is chosen explicitly, and otherwise the next backend is
  /// asked. The same on all ranks.
  virtual bool pays([[maybe_unused]] const Call& call) const { return true; }
  /// Whether it supports averages of elements of `type`. Backends that accumulate sums in the type itself do not support float16: the sum may
  /// overflow.
  virtual bool averages([[maybe_unused]] ElementType type) const { return true; }
  /// Begins the call; does not wait.
  virtual std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call) = 0;
  /// Aborts its work on streams, because other ranks may never do their part of it.
  virtual void give_up() {}
};

/// Whether a backend supports a collective, and if not, why.
struct Availability {
  Collective collective;
  std::string backend;
  bool on_device;       ///< for tensors on a device, where "staged" stands for all host backends together
  std::string why_not;  ///< empty: available
  bool chosen = false;  ///< whether it is used for calls of at least one size
};

/// Every combination of a collective and a backend on this communicator. For each collective, backends for host tensors come first, then those for
/// tensors on LibTorch's accelerator, if this machine has one. Collective.
std::vector<Availability> availability(const Communicator& comm);

/// Runs the collectives of `comm` on the backend `name`, at any size, where it supports them. The others run on the backend of selection(), or on the
/// first one in the order of availability() that supports them. Every rank must pass the same name. Collective.
/// @param name for host and staged tensors: "shared_memory", "mpi", "hierarchical" (shared memory in nodes, messages between them), or an algorithm
/// over messages: "ring", "recursive_doubling", "circulant", "tree", "chain", "double_tree", "pairwise", "bruck". For tensors on a device: "nccl",
/// "ipc" (device memory that ranks of a node share), "direct" (an MPI that accepts device pointers) or "staged". std::nullopt restores both defaults.
/// @throws ContractError for an unknown name.
void choose_backend(const Communicator& comm, const std::optional<std::string>& name);

/// The backend for each collective and size of host tensors. The default comes from a cost model of a 1 Gbit/s network. Collective.
const algorithms::Selection& selection(const Communicator& comm);
/// Replaces the selection of `comm`. It also applies to communicators later made from `comm` (dup(), split() and the like) and first used after this
/// call, if they have the same number of nodes and ranks. A call that a backend does not support runs on the first one that does. Collective.
/// @throws ContractError for an unknown backend, or if ranks pass different selections.
void select_backends(const Communicator& comm, const algorithms::Selection& selection);
/// The number of nodes of `comm`, and of ranks on the node that has the most. Collective.
algorithms::Cluster cluster_of(const Communicator& comm);
/// The backend names that a selection may contain. Collective.
std::vector<std::string> backend_names(const Communicator& comm);

}  // namespace tw
