// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/device_awareness.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/tensor/on_cpu.hpp>

#include "backends.hpp"
#include "devices_here.hpp"
#include "node_memory.hpp"

namespace tw {
namespace {

/// The ranks of this node write their calls into the channel.
class ChannelBoard : public mpi::Board {
 public:
  ChannelBoard(std::shared_ptr<shared_memory::Channel> channel, std::vector<int> neighbours)
      : channel_(std::move(channel)), neighbours_(std::move(neighbours)) {}

  void record(const Call& call, uint64_t number) override { channel_->record(call, number); }
  void record_end(uint64_t finished) override { channel_->record_end(finished); }
  void record_release() override { channel_->record_release(); }
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

/// A transfer that only makes the link.
class Link::Making : public mpi::Transfer {
 public:
  Making(const Communicator& comm, std::shared_ptr<Link> link) : comm_(mpi::borrow(comm)), link_(std::move(link)) {}
  bool advance() override { return link_->advance(comm_); }

 private:
  const Communicator comm_;
  const std::shared_ptr<Link> link_;  // if it never ends, MPI may still write into it
};

Link& Link::of(const Communicator& comm) {
  const auto& attached = mpi::attachment(comm);
  return attached ? *static_cast<Link*>(attached.get()) : *begin_link(comm, SlotSizes(), ranks_of_this_node(comm));
}

Link& Link::made(const Communicator& comm) {
  Link& link = of(comm);
  const auto shared = std::static_pointer_cast<Link>(mpi::attachment(comm));
  mpi::start(comm, {.collective = Collective::make_communicator}, std::make_unique<Making>(comm, shared)).wait();
  return link;
}

Link& Link::make(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours) {
  begin_link(comm, sizes, std::move(neighbours));
  return made(comm);
}

std::shared_ptr<Link> Link::begin_link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours) {
  std::shared_ptr<Link> link(new Link(comm, sizes, std::move(neighbours)));
  mpi::attachment(comm) = link;
  return link;
}

namespace {

/// An all-reduce up to this many bytes is reduced in full by every rank, which saves one wait per round. On two ranks this holds for every size: it
/// reads as much of the other's memory as exchanging halves does.
int64_t flat_bytes_of(const Communicator& comm, int64_t of_many) { return comm.size() == 2 ? std::numeric_limits<int64_t>::max() : of_many; }

}  // namespace

Link::Link(const Communicator& comm, const SlotSizes& sizes, std::vector<int> neighbours)
    : neighbours_(std::move(neighbours)),
      slot_bytes_(sizes.bytes),
      first_neighbour_(neighbours_.front()),
      first_neighbours_(static_cast<size_t>(comm.size())) {
  const std::vector<int64_t> bytes(first_neighbours_.size(), sizeof first_neighbour_);
  const auto mine = std::as_bytes(std::span(&first_neighbour_, 1));
  exchange_ = mpi::allgather_transfer(comm, mine, std::as_writable_bytes(std::span(first_neighbours_)).data(), bytes);
  memory_ = std::make_unique<NodeMemory>(comm, neighbours_, shared_memory::Channel::bytes_needed(static_cast<int>(neighbours_.size()), slot_bytes_));
  for (const std::shared_ptr<void>& attached : mpi::attachments_above(comm)) {
    const auto& above = *static_cast<const Link*>(attached.get());
    if (!inherited_ && above.made_ && above.is_selected_) inherited_ = Inherited{above.cluster(), above.selection_};
  }
  if (const std::string kind = accelerator_here(); kind != "cpu") {
    device_backends_.push_back(make_alone_backend(comm.size() == 1));
    device_backends_.push_back(make_nccl_backend(kind));
    const auto channel_of_all = [](const Communicator& of) {
      const Link& link = made(of);
      return link.channel_->ranks() == of.size() ? link.channel_ : nullptr;
    };
    device_backends_.push_back(
        make_ipc_backend({channel_of_all, sizes.device_bytes, sizes.device_flat_bytes.value_or(flat_bytes_of(comm, int64_t{256} << 10))}));
    device_backends_.push_back(make_direct_backend(kind, mpi::takes_devices(comm, kind)));
  }
}

std::unique_ptr<mpi::Transfer> Link::begin(const Communicator& comm, const BoundCall& call, mpi::StartQueue::Ready ready, Backend* device_backend) {
  mpi::expect_own_thread(comm);
  Backend* known = device_backend == nullptr && made_ ? &backend(call.call) : device_backend;  // chosen now, not when it starts
  const auto begin = [this, call, known](const Communicator& of) { return (known != nullptr ? *known : backend(call.call)).begin(of, call); };
  if (made_ && !ready && !mpi::collective_queue(comm).is_waiting()) return begin(comm);
  return this->begin(comm, begin, std::move(ready));
}

std::unique_ptr<mpi::Transfer> Link::begin(const Communicator& comm, mpi::StartQueue::Start start, mpi::StartQueue::Ready ready) {
  const auto all_ready = [this, ready = std::move(ready)](const Communicator& of) {
    const bool is_ready = !ready || ready(of);  // first: an audit detects a rank that never makes this link
    return advance(of) && is_ready;
  };
  return mpi::collective_queue(comm).start(comm, std::move(start), all_ready);
}

// True when the link is made.
bool Link::advance(const Communicator& comm) {
  if (made_) return true;
  if (failure_) std::rethrow_exception(failure_);
  if (exchange_ && !exchange_->advance()) return false;
  exchange_.reset();
  try {
    if (!memory_->advance(comm)) return false;
    finish(comm);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  return true;
}

void Link::finish(const Communicator& comm) {
  const int here = static_cast<int>(neighbours_.size());
  const auto place = std::find(neighbours_.begin(), neighbours_.end(), comm.rank());
  auto memory = memory_->take();
  memory_.reset();
  std::byte* begin = memory.get();
  channel_ = std::make_shared<shared_memory::Channel>(std::move(memory), begin, static_cast<int>(place - neighbours_.begin()), here, slot_bytes_);
  mpi::set_board(comm, std::make_shared<ChannelBoard>(channel_, neighbours_));
  const int64_t flat_bytes = flat_bytes_of(comm, int64_t{8} << 10);
  backends_.push_back(make_shared_memory_backend(here == comm.size() ? channel_ : nullptr, flat_bytes));
  backends_.push_back(make_mpi_backend());
  nodes_.emplace(first_neighbours_);
  const auto next_sequence = std::make_shared<int64_t>(0);
  backends_.push_back(make_hierarchical_backend(comm, channel_, flat_bytes, *nodes_, next_sequence));
  for (auto& backend : make_plan_backends(comm, next_sequence)) backends_.push_back(std::move(backend));
  selection_ = first_selection();
  choose(std::nullopt);
  made_ = true;
}

// The inherited selection if it has the same number of nodes and ranks; otherwise the one that the cost model prefers.
algorithms::Selection Link::first_selection() {
  const algorithms::Cluster mine = cluster();
  is_selected_ = inherited_ && inherited_->cluster.nodes == mine.nodes && inherited_->cluster.ranks_per_node == mine.ranks_per_node;
  if (is_selected_) return inherited_->selection;
  return algorithms::Selection::by_price(mine, [this](std::string_view method, Collective collective) {
    const auto found = std::find_if(backends_.begin(), backends_.end(), [&](const auto& backend) { return backend->name() == method; });
    return found != backends_.end() && (*found)->why_not({.collective = collective}).empty();
  });
}

namespace {

using Backends = std::vector<std::unique_ptr<Backend>>;

constexpr std::string_view staged = "staged";  // through host memory, with the host's backends

// @param prepare makes a backend ready for why_not()
Backend* first_that_can(const Backends& backends, const Call& call, const std::optional<std::string>& chosen,
                        const std::function<void(Backend&)>& prepare = {}) {
  const auto can = [&](const auto& backend) {
    if (prepare) prepare(*backend);
    return backend->why_not(call).empty();
  };
  const auto is_chosen = [&](const auto& backend) { return backend->name() == chosen && can(backend); };
  const auto is_default = [&](const auto& backend) { return can(backend) && backend->pays(call); };
  auto found = std::find_if(backends.begin(), backends.end(), is_chosen);
  if (found == backends.end()) found = std::find_if(backends.begin(), backends.end(), is_default);
  return found == backends.end() ? nullptr : found->get();
}

bool has(const Backends& backends, std::string_view name) {
  return std::any_of(backends.begin(), backends.end(), [&](const auto& backend) { return backend->name() == name; });
}

}  // namespace

Backend* Link::device_backend(const Communicator& comm, const Call& call, c10::Device device) {
  if (chosen_for_devices_ == staged) return nullptr;
  return first_that_can(device_backends_, call, chosen_for_devices_, [&](Backend& backend) { backend.prepare(comm, device); });
}

void Link::prepare_devices(const Communicator& comm, c10::Device device) {
  for (const auto& backend : device_backends_) backend->prepare(comm, device);
}

Backend* Link::device_backend(const Call& call) const {
  return chosen_for_devices_ == staged ? nullptr : first_that_can(device_backends_, call, chosen_for_devices_);
}

void Link::choose(const std::optional<std::string>& name) {
  const bool for_host = !name || has(backends_, *name);
  const bool for_devices = !name || *name == staged || has(device_backends_, *name);
  TW_EXPECTS(for_host || for_devices, "there is no backend '", name.value_or(""), "'; there are ", joined(backend_names()),
             device_backends_.empty() ? "" : ", and for devices only, nccl, ipc, direct and staged");
  if (for_host) chosen_ = name;
  if (for_devices) chosen_for_devices_ = name;
  update_choices();
}

void Link::select(const algorithms::Selection& selection) {
  for (const algorithms::Choice& choice : selection.choices()) {
    TW_EXPECTS(has(backends_, choice.backend), "there is no backend '", choice.backend, "' to select; there are ", joined(backend_names()));
  }
  selection_ = selection;
  is_selected_ = true;
  update_choices();
}

void Link::update_choices() {
  constexpr int64_t without_limit = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < collectives; ++i) {
    const Call call{.collective = static_cast<Collective>(i)};
    std::vector<BackendChoice>& choices = choices_[static_cast<size_t>(i)];
    choices.clear();
    Backend* chosen = first_that_can(backends_, call, chosen_);
    for (const algorithms::Choice& choice : selection_.choices()) {
      const bool is_overruled = chosen_ && chosen->name() == *chosen_;
      if (choice.collective == call.collective && !is_overruled)
        choices.push_back({choice.largest_bytes, first_that_can(backends_, call, choice.backend)});
    }
    if (choices.empty()) choices.push_back({without_limit, chosen});
  }
}

Backend& Link::backend(const Call& call) const {
  const auto ranks = static_cast<int64_t>(first_neighbours_.size());
  const int64_t bytes = call.count * element_bytes(call.type) * (call.collective == Collective::allgather ? ranks : 1);
  const std::vector<BackendChoice>& choices = choices_[static_cast<size_t>(call.collective)];
  const auto found = std::find_if(choices.begin(), choices.end(), [&](const BackendChoice& each) { return bytes <= each.largest_bytes; });
  const bool averages = call.op != ReduceOp::average || !is_reduction(call.collective) || found->backend->averages(call.type);
  Backend* const able = averages ? found->backend : first_that_can(backends_, call, std::nullopt);
  TW_ASSERT(able != nullptr);  // MPI supports every call
  return *able;
}

algorithms::Cluster Link::cluster() const {
  size_t most = 0;
  for (const auto& members : nodes_->members) most = std::max(most, members.size());
  return {.nodes = nodes_->count(), .ranks_per_node = static_cast<int>(most)};
}

std::vector<std::string> Link::backend_names() const {
  std::vector<std::string> names;
  for (const auto& backend : backends_) names.emplace_back(backend->name());
  return names;
}

void Link::list(const Call& call, std::vector<Availability>& all) const {
  const std::vector<BackendChoice>& choices = choices_[static_cast<size_t>(call.collective)];
  for (const auto& backend : backends_) {
    const bool is_chosen = std::any_of(choices.begin(), choices.end(), [&](const BackendChoice& each) { return each.backend == backend.get(); });
    all.push_back({call.collective, std::string(backend->name()), false, backend->why_not(call), is_chosen});
  }
  if (device_backends_.empty() || call.collective == Collective::barrier) return;
  const std::array sizes{int64_t{0}, int64_t{1} << 40};  // the choice of device backend changes at most once with size
  const auto is_chosen = [&](const Backend* backend) {
    return std::any_of(sizes.begin(), sizes.end(),
                       [&](int64_t count) { return device_backend({.collective = call.collective, .type = call.type, .count = count}) == backend; });
  };
  for (const auto& backend : device_backends_) {
    all.push_back({call.collective, std::string(backend->name()), true, backend->why_not(call), is_chosen(backend.get())});
  }
  all.push_back({call.collective, std::string(staged), true, "", is_chosen(nullptr)});
}

std::vector<Availability> availability(const Communicator& comm) {
  Link& link = Link::made(comm);
  if (const auto kind = at::accelerator::getAccelerator(); kind && devices_here(*kind) > 0) {
    link.prepare_devices(comm, current_device(*kind));
  }
  std::vector<Availability> all;
  for (const Collective collective : {Collective::barrier, Collective::broadcast, Collective::allreduce, Collective::reduce, Collective::allgather,
                                      Collective::reduce_scatter, Collective::alltoall}) {
    link.list({.collective = collective}, all);
  }
  return all;
}

void choose_backend(const Communicator& comm, const std::optional<std::string>& name) { Link::made(comm).choose(name); }

const algorithms::Selection& selection(const Communicator& comm) { return Link::made(comm).selection(); }

void select_backends(const Communicator& comm, const algorithms::Selection& selection) {
  Link& link = Link::made(comm);
  expect_same_on_all_ranks(comm, "a selection of backends", {selection.to_toml(link.cluster())});
  link.select(selection);
}

algorithms::Cluster cluster_of(const Communicator& comm) { return Link::made(comm).cluster(); }

std::vector<std::string> backend_names(const Communicator& comm) { return Link::made(comm).backend_names(); }

}  // namespace tw
