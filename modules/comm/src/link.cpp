// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include <algorithm>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/topology.hpp>

#include "back_ends.hpp"
#include "node_memory.hpp"

namespace tw {
namespace {

/// The ranks of this node write what they do into the channel.
class ChannelBoard : public mpi::Board {
 public:
  ChannelBoard(std::shared_ptr<shared_memory::Channel> channel, std::vector<int> neighbours)
      : channel_(std::move(channel)), neighbours_(std::move(neighbours)) {}

  void record(const Call& call, uint64_t number) override { channel_->record(call, number); }
  void record_end(uint64_t finished) override { channel_->record_end(finished); }
  void record_left() override { channel_->record_left(); }
  std::optional<LastSeen> last_seen(int rank) const override {
    const auto found = std::find(neighbours_.begin(), neighbours_.end(), rank);
    if (found == neighbours_.end()) return std::nullopt;
    return channel_->last_seen(static_cast<int>(found - neighbours_.begin()));
  }

 private:
  std::shared_ptr<shared_memory::Channel> channel_;
  std::vector<int> neighbours_;
};

}  // namespace

Link& Link::of(const Communicator& comm) {
  const auto& attached = mpi::attachment(comm);
  return attached ? *static_cast<Link*>(attached.get()) : make(comm, SharedMemoryOptions(), ranks_of_this_node(comm));
}

Link& Link::make(const Communicator& comm, const SharedMemoryOptions& options, std::vector<int> neighbours) {
  const std::shared_ptr<Link> link(new Link(comm, options, std::move(neighbours)));
  mpi::attachment(comm) = link;
  return *link;
}

Link::Link(const Communicator& comm, const SharedMemoryOptions& options, std::vector<int> neighbours) : neighbours_(std::move(neighbours)) {
  const int here = static_cast<int>(neighbours_.size());
  const int64_t flat_bytes = options.flat_bytes.value_or(comm.size() == 2 ? std::numeric_limits<int64_t>::max() : int64_t{8} << 10);
  expect_same_on_all_ranks(comm, "SharedMemoryOptions", {concat("slot_bytes ", options.slot_bytes), concat("flat_bytes ", flat_bytes)});
  int32_t most = here;  // ranks of a node
  mpi::allreduce(comm, {&most, 1, ElementType::int32}, ReduceOp::max);
  TW_EXPECTS(options.slot_bytes % 64 == 0 && options.slot_bytes >= int64_t{64} * most, "a slot must have a multiple of 64 bytes and 64 for each of ",
             most, " ranks of a node, got ", options.slot_bytes);
  const auto place = std::find(neighbours_.begin(), neighbours_.end(), comm.rank());
  auto memory = make_node_memory(comm, neighbours_, shared_memory::Channel::bytes_needed(here, options.slot_bytes));
  std::byte* begin = memory.get();
  channel_ =
      std::make_shared<shared_memory::Channel>(std::move(memory), begin, static_cast<int>(place - neighbours_.begin()), here, options.slot_bytes);
  mpi::set_board(comm, std::make_shared<ChannelBoard>(channel_, neighbours_));
  back_ends_.push_back(make_shared_memory_back_end(here == comm.size() ? channel_ : nullptr, flat_bytes));
  back_ends_.push_back(make_mpi_back_end());
  choose(std::nullopt);
}

BackEnd& Link::find_back_end(Collective collective) const {
  if (chosen_) {
    for (const auto& back_end : back_ends_) {
      if (back_end->name() == *chosen_ && back_end->why_not(collective).empty()) return *back_end;
    }
  }
  for (const auto& back_end : back_ends_) {
    if (back_end->why_not(collective).empty()) return *back_end;
  }
  TW_ASSERT(false);  // the last one, MPI's, can do everything
  return *back_ends_.back();
}

void Link::choose(std::optional<std::string> name) {
  const auto is_called = [&](const auto& back_end) { return back_end->name() == *name; };
  TW_EXPECTS(!name || std::any_of(back_ends_.begin(), back_ends_.end(), is_called), "there is no back end '", name.value_or(""),
             "'; there are shared_memory and mpi");
  chosen_ = std::move(name);
  for (int i = 0; i < collectives; ++i) for_collective_[static_cast<size_t>(i)] = &find_back_end(static_cast<Collective>(i));
}

std::vector<Availability> availability(const Communicator& comm) {
  const Link& link = Link::of(comm);
  std::vector<Availability> all;
  for (const Collective collective : {Collective::barrier, Collective::broadcast, Collective::allreduce, Collective::reduce, Collective::allgather,
                                      Collective::reduce_scatter, Collective::alltoall}) {
    for (const auto& back_end : link.back_ends()) {
      all.push_back({collective, std::string(back_end->name()), back_end->why_not(collective), &link.back_end(collective) == back_end.get()});
    }
  }
  return all;
}

void choose_back_end(const Communicator& comm, std::optional<std::string> name) { Link::of(comm).choose(std::move(name)); }

void prepare_shared_memory(const Communicator& comm, const SharedMemoryOptions& options) {
  TW_EXPECTS(!mpi::attachment(comm), "prepare_shared_memory() must come before the first collective on '", comm.name(), "'");
  Link::make(comm, options, ranks_of_this_node(comm));
}

}  // namespace tw
