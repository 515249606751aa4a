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

/// Sizes of what the ranks of a node share. The same on all ranks; multiples of 64, at least 64 a rank of a node. Tests alone give others.
struct SlotSizes {
  /// Bytes of a slot, of which every rank has two: how much a rank shows at a time of a tensor in ordinary memory. Larger slots wait less often; two
  /// slots of every rank should stay in the cache.
  int64_t bytes = int64_t{512} << 10;
  /// The same of memory on devices. A slot is as much as goes at a time, and every rank has two for each communicator whose devices share memory.
  int64_t device_bytes = int64_t{32} << 20;
  /// An all-reduce of tensors on devices up to this many bytes is reduced by every rank for itself. Unset: any on two ranks; 256 KiB on more.
  std::optional<int64_t> device_flat_bytes = {};
};

/// What `comm` keeps for a communicator: who is on this node, the memory they share, and the ways to do collectives. Begun at first use, and made
/// while operations wait for it: the first use of a communicator blocks no more than any other.
class Link {
 public:
  /// The link of `comm`, which may not be made yet. To be called once a call's operands are known to be right: what it begins is MPI's to end. Local,
  /// but on the world of an MPI that was adopted, where the first call asks MPI who is on this node.
  static Link& of(const Communicator& comm);
  /// The same, made. Collective.
  static Link& made(const Communicator& comm);
  /// Makes it with other sizes. Collective. @param neighbours the ranks of this node, ascending.
  static Link& make(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);

  /// The backend that takes `call` in the memory of `device`: the one that was chosen, where it can do it, or the first that can; null: none, it is
  /// staged. The same on all ranks. Collective at first, where there is one that must connect them.
  Backend* device_backend(const Communicator& comm, const Call& call, c10::Device device);
  /// Begins `call` with `device_backend`, else the one for the host's memory; or something that will, once the link is made and the memory `ready`.
  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& call, mpi::StartQueue::Ready ready = {},
                                       Backend* device_backend = nullptr);
  /// The same for a collective that `start` begins without a backend.
  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, mpi::StartQueue::Start start, mpi::StartQueue::Ready ready);

  /// Makes all that take the memory of `device` ready to be asked. Collective.
  void prepare_devices(const Communicator& comm, c10::Device device);

  // Of a link that is made.

  /// The backend for `call` in the host's memory: the one that was chosen, where it can do it; else the one that the selection says; or the first
  /// that can.
  Backend& backend(const Call& call) const;
  const algorithms::Selection& selection() const noexcept { return selection_; }
  void select(const algorithms::Selection& selection);
  algorithms::Cluster cluster() const;
  std::vector<std::string> backend_names() const;
  /// Adds what can do `call`.
  void list(const Call& call, std::vector<Availability>& all) const;
  void choose(const std::optional<std::string>& name);
  const std::shared_ptr<shared_memory::Channel>& channel() const noexcept { return channel_; }
  /// Ranks of this node, ascending.
  const std::vector<int>& neighbours() const noexcept { return neighbours_; }

 private:
  class Making;
  Backend* device_backend(const Call& call) const;
  void find_takers();
  algorithms::Selection first_selection();

  Link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);
  static std::shared_ptr<Link> begin_link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours);
  bool advance(const Communicator& comm);
  void finish(const Communicator& comm);

  std::vector<int> neighbours_;
  int64_t slot_bytes_;
  int64_t first_neighbour_;
  std::vector<int64_t> first_neighbours_;    // by rank
  std::unique_ptr<mpi::Transfer> exchange_;  // of them
  std::optional<Nodes> nodes_;
  std::unique_ptr<NodeMemory> memory_;  // while it is made
  std::exception_ptr failure_;          // of the making, for all that wait for it
  std::atomic<bool> made_ = false;

  std::shared_ptr<shared_memory::Channel> channel_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Backend>> device_backends_;
  std::optional<std::string> chosen_;
  std::optional<std::string> chosen_for_devices_;
  algorithms::Selection selection_{{}};
  bool is_selected_ = false;  // by the user
  /// What was selected for the communicator that this one was made of, when this one was first used.
  struct Inherited {
    algorithms::Cluster cluster;
    algorithms::Selection selection;
  };
  std::optional<Inherited> inherited_;
  /// The selection's lines, or one line without limit.
  struct Taker {
    int64_t largest_bytes;
    Backend* backend;
  };
  std::array<std::vector<Taker>, collectives> takers_;
};

}  // namespace tw
