// SPDX-License-Identifier: Apache-2.0
// How a collective is executed: by MPI, or through memory that the ranks of a node share. Device tensors use the same paths, staged through pinned
// host memory, unless a backend accesses the device's memory directly.
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

/// How an operation gets at tensors of a device.
enum class Passage {
  staged,     ///< through pinned memory of the host, as tensors of the host go
  direct,     ///< in their own memory, once that holds what the current stream had in flight
  in_stream,  ///< in their own memory, by work in a stream, for which the host does not wait
};

/// A collective as a backend gets it. Memory is contiguous and stays until completion; the device's own where the backend takes that.
struct BoundCall {
  Call call;
  const std::byte* input = nullptr;  ///< as many elements as are moved
  /// allreduce, reduce, broadcast: `input` itself; alltoall: memory of its own; reduce_scatter: the same, or this rank's part of `input`; allgather:
  /// the same, or `input` is this rank's part of it.
  std::byte* output = nullptr;
  std::optional<c10::Stream> stream = {};  ///< of a device: that of the operation
  std::optional<CallPart> part = {};       ///< where the call is done in parts: of this one are `input` and `output`
};

/// What is to be done: the call, or a part of it.
inline const Call& moved(const BoundCall& bound) { return bound.part ? bound.part->moved : bound.call; }

/// One implementation of collectives on one communicator.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// How it accesses device tensors. A backend for host tensors uses `staged`.
  virtual Passage passage() const noexcept { return Passage::staged; }
  /// To be called before the first call on tensors of `device`. Collective.
  virtual void prepare([[maybe_unused]] const Communicator& comm, [[maybe_unused]] c10::Device device) {}
  /// Why it cannot do a `call`; empty where it can. The same on all ranks. Of the host's memory, the collective alone decides.
  virtual std::string why_not(const Call& call) const = 0;
  /// Whether a `call` that it can do goes to it by default; otherwise those after it are asked, and it does what it is chosen for. The same on all
  /// ranks.
  virtual bool pays([[maybe_unused]] const Call& call) const { return true; }
  /// Whether it takes averages of elements of `type`. Those that carry sums as the type itself do not take float16: the sum may be too large for it.
  virtual bool averages([[maybe_unused]] ElementType type) const { return true; }
  /// Begins the call; does not wait.
  virtual std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call) = 0;
  /// Ends what it has in streams: other ranks may never do their part.
  virtual void give_up() {}
};

/// Whether a backend can do a collective, and if not, why.
struct Availability {
  Collective collective;
  std::string backend;
  bool on_device;       ///< of tensors on a device; there "staged" is all backends of the host together
  std::string why_not;  ///< empty: available
  bool chosen = false;  ///< calls go to it, of some size at least
};

/// Every collective x backend on this communicator, of tensors of the host, then on the device of LibTorch's accelerator if this machine has one.
/// Collective.
std::vector<Availability> availability(const Communicator& comm);

/// Sends the collectives of `comm` to the backend `name` where it supports them, at any size; the others go to the choice of selection(), or to the
/// first in the order of availability() that supports them. Every rank must choose the same. Collective.
/// @param name for tensors of the host, and for what is staged, "shared_memory", "mpi", "hierarchical" (in nodes through their memory, between them
/// by messages), or an algorithm over messages: "ring", "recursive_doubling", "circulant", "tree", "chain", "double_tree", "pairwise", "bruck"; for
/// tensors on a device "nccl", "ipc" (memory of devices that ranks of a node share), "direct" (an MPI that takes pointers to a device) or "staged";
/// nothing: the default of both. @throws ContractError for an unknown name.
void choose_backend(const Communicator& comm, const std::optional<std::string>& name);

/// The backend of each collective and size of host tensors. The default comes from a formula, for a network of 1 Gbit/s. Collective.
const algorithms::Selection& selection(const Communicator& comm);
/// Replaces it, for `comm` and for communicators made from it by dup(), split() and the like that are first used later and have the same number of
/// nodes and ranks. A call that a backend does not support goes to the first one that does. Collective. @throws ContractError for an unknown backend,
/// or where ranks pass different selections.
void select_backends(const Communicator& comm, const algorithms::Selection& selection);
/// The cluster that the ranks of `comm` form; its ranks per node are those of the node with the most ranks. Collective.
algorithms::Cluster cluster_of(const Communicator& comm);
/// The backend names that a selection may contain. Collective.
std::vector<std::string> backend_names(const Communicator& comm);

}  // namespace tw
