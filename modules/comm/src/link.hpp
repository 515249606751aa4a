// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tw/algorithms/selection.hpp>
#include <tw/comm/backend.hpp>
#include <tw/mpi/start_queue.hpp>
#include <tw/shared_memory/channel.hpp>
#include <vector>

#include "node_memory.hpp"
#include "nodes.hpp"

namespace tw {

/// Sizes of the memory that ranks of a node share. The same on all ranks; multiples of 64, at least 64 per rank of a node. Only tests change them.
struct SlotSizes {
  /// Bytes of a slot in host memory: what a rank shares at a time. Every rank has two. Larger slots wait less often, but two slots of every rank
  /// should fit in the cache.
  int64_t bytes = int64_t{512} << 10;
  /// The same for device memory. Every rank has two slots for each communicator whose devices share memory.
  int64_t device_bytes = int64_t{32} << 20;
  /// Largest all-reduce of device tensors that every rank reduces in full, in bytes. Unset: unlimited on two ranks, 256 KiB on more.
  std::optional<int64_t> device_flat_bytes = {};
};

/// What the library keeps for a communicator: the ranks of this node, the memory they share, and the backends. It is started at first use, and
/// completed while operations wait for it. So the first use of a communicator blocks no more than any other.
class Link {
 public:
  /// The link of `comm`, which may still be in progress. Check a call's operands first: this starts an operation that MPI must finish. Local, except
  /// on the world of an adopted MPI, where the first call asks MPI for the ranks of this node.
  static Link& of(const Communicator& comm);
  /// The same, but waits until the link is made. Collective.
  static Link& made(const Communicator& comm);
  /// Makes it with other slot sizes. Collective. @param neighbours the ranks of this node, ascending.
  static Link& make(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);

  /// The backend that runs `call` in the memory of `device`: the chosen one if it supports the call, otherwise the first that does; null: the call is
  /// staged. The same on all ranks. The first call is collective if a backend must connect the ranks.
  Backend* device_backend(const Communicator& comm, const Call& call, c10::Device device);
  /// Starts `call` with `device_backend`, or with the backend for host memory. The transfer waits until the link is made and the memory is `ready`.
  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call, mpi::StartQueue::Ready ready = {},
                                       Backend* device_backend = nullptr);
  /// The same for a collective that `start` starts without a backend.
  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, mpi::StartQueue::Start start, mpi::StartQueue::Ready ready);

  /// Prepares all backends for the memory of `device`. Collective.
  void prepare_devices(const Communicator& comm, c10::Device device);

  // The members below need a link that is made.

  /// The backend for `call` in host memory: the chosen one if it supports the call, otherwise the one that the selection names, otherwise the first
  /// that supports it.
  Backend& backend(const Call& call) const;
  const algorithms::Selection& selection() const noexcept { return selection_; }
  void select(const algorithms::Selection& selection);
  algorithms::Cluster cluster() const;
  std::vector<std::string> backend_names() const;
  /// Adds the backends that support `call`.
  void list(const Call& call, std::vector<Availability>& all) const;
  void choose(const std::optional<std::string>& name);
  const std::shared_ptr<shared_memory::Channel>& channel() const noexcept { return channel_; }
  /// Ranks of this node, ascending.
  const std::vector<int>& neighbours() const noexcept { return neighbours_; }

 private:
  class Making;
  Backend* device_backend(const Call& call) const;
  void update_choices();
  algorithms::Selection first_selection();

  Link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);
  static std::shared_ptr<Link> begin_link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);
  bool advance(const Communicator& comm);
  void finish(const Communicator& comm);

  std::vector<int> neighbours_;
  int64_t slot_bytes_;
  int64_t first_neighbour_;
  std::vector<int64_t> first_neighbours_;    // by rank
  std::unique_ptr<mpi::Transfer> exchange_;  // exchange of first_neighbours_
  std::optional<Nodes> nodes_;
  std::unique_ptr<NodeMemory> memory_;  // null once it is made
  std::exception_ptr failure_;          // thrown to every operation that waits for the link
  std::atomic<bool> made_ = false;

  std::shared_ptr<shared_memory::Channel> channel_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Backend>> device_backends_;
  std::optional<std::string> chosen_;
  std::optional<std::string> chosen_for_devices_;
  algorithms::Selection selection_{{}};
  bool is_selected_ = false;  // by the user
  /// The selection of the nearest ancestor that has one, at the first use of this communicator.
  struct Inherited {
    algorithms::Cluster cluster;
    algorithms::Selection selection;
  };
  std::optional<Inherited> inherited_;
  /// One line of the selection; a single line without limit if it has none.
  struct BackendChoice {
    int64_t largest_bytes;
    Backend* backend;
  };
  std::array<std::vector<BackendChoice>, collectives> choices_;
};

}  // namespace tw
