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
  direct,     ///< in device memory, once the work that was queued on the current stream at the call has completed
  in_stream,  ///< in device memory, by work on a stream; the host does not wait
};

/// A collective as passed to a backend. The memory of `input` and `output` is contiguous and stays allocated until completion. It is host memory if
/// Backend::passage() is `staged`, otherwise device memory.
struct BoundCall {
  Call call;
  const std::byte* input = nullptr;  ///< the elements of the call that moved() returns
  /// allreduce, reduce, broadcast: `input` itself. alltoall: separate memory. reduce_scatter: separate memory, or this rank's part of `input`.
  /// allgather: separate memory, or `input` is this rank's part of it.
  std::byte* output = nullptr;
  std::optional<c10::Stream> stream = {};  ///< the operation's stream, for device memory
  std::optional<CallPart> part = {};       ///< the part that `input` and `output` hold, if the call is split
};

/// The call to execute: the part if `bound` has one, otherwise the whole call.
inline const Call& moved(const BoundCall& bound) { return bound.part ? bound.part->moved : bound.call; }

/// One implementation of collectives on one communicator.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// How this backend accesses device tensors; `staged` if it works in host memory.
  virtual Passage passage() const noexcept { return Passage::staged; }
  /// Call it before this backend's first call on tensors of `device`. Collective.
  virtual void prepare([[maybe_unused]] const Communicator& comm, [[maybe_unused]] c10::Device device) {}
  /// Why this backend does not support `call`; empty if it does. The same on all ranks. For backends in host memory, the answer depends only on the
  /// collective.
  virtual std::string why_not(const Call& call) const = 0;
  /// Whether this backend is a good default for a `call` that it supports. If not, it runs the call only if it is chosen explicitly; otherwise the
  /// next backend is asked. The same on all ranks.
  virtual bool pays([[maybe_unused]] const Call& call) const { return true; }
  /// Whether this backend supports averages of elements of `type`. Backends that compute the sum in `type` itself do not support float16, because the
  /// sum may overflow.
  virtual bool averages([[maybe_unused]] ElementType type) const { return true; }
  /// Begins the call; does not wait.
  virtual std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call) = 0;
  /// Aborts this backend's work on device streams. Called when other ranks may never do their part of that work.
  virtual void give_up() {}
};

/// Whether a backend supports a collective, and if not, why.
struct Availability {
  Collective collective;
  std::string backend;
  bool on_device;       ///< for tensors on a device; `backend` "staged" then stands for all host backends together
  std::string why_not;  ///< empty: available
  bool chosen = false;  ///< whether calls of at least one size use this backend
};

/// One entry per backend of this communicator for each collective that has a choice of backends (all but gather and scatter). For each collective,
/// backends for host tensors come first, then those for tensors on LibTorch's accelerator, if this machine has one (none for
/// a barrier). Collective.
std::vector<Availability> availability(const Communicator& comm);

/// Makes the backend `name` run all calls on `comm` that it supports, of any size. There is one choice for host and staged tensors, and one for
/// device tensors; a call replaces only the one that `name` belongs to. If the chosen backend does not support a call, the call runs on the backend
/// of selection() (host tensors), or on the first backend, in the order of availability(), that supports it and whose pays() is true (device
/// tensors). An average of float16 that the chosen host backend does not support runs on the first backend that does. Every rank must pass the same
/// name. Collective.
/// @param name for host and staged tensors: "shared_memory", "mpi", "hierarchical" (shared memory in nodes, messages between them), or an algorithm
/// over messages: "ring", "recursive_doubling", "circulant", "tree", "chain", "double_tree", "pairwise", "bruck". For tensors on a device: "nccl",
/// "ipc" (device memory that ranks of a node share), "direct" (an MPI that accepts device pointers) or "staged". std::nullopt restores both defaults.
/// @throws ContractError for an unknown name, and without an accelerator for "nccl", "ipc" and "direct".
void choose_backend(const Communicator& comm, const std::optional<std::string>& name);

/// The backend for each collective and size of host and staged tensors. The default comes from a cost model of nodes linked at 1 Gbit/s. Collective.
const algorithms::Selection& selection(const Communicator& comm);
/// Replaces the selection of `comm`. The new one also applies to communicators derived from `comm` (by dup(), split() and the like) that are first
/// used after this call and have the same cluster_of(). If the selected backend does not support a call, the first one in the order of availability()
/// that does runs it. Collective.
/// @throws ContractError for an unknown backend, or if ranks pass different selections.
void select_backends(const Communicator& comm, const algorithms::Selection& selection);
/// The number of nodes of `comm`, and the number of ranks on its largest node. Collective.
algorithms::Cluster cluster_of(const Communicator& comm);
/// The backend names that a selection may contain. Collective.
std::vector<std::string> backend_names(const Communicator& comm);

}  // namespace tw
