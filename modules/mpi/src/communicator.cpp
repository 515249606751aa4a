// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/communicator.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <random>
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/error.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/start_queue.hpp>

#include "rendezvous.hpp"
#include "runtime.hpp"

namespace tw {
namespace mpi {

std::shared_ptr<CommunicatorState> make_communicator_state(MPI_Comm handle, bool owned, std::string name, std::shared_ptr<Runtime> runtime,
                                                           std::shared_ptr<CommunicatorState> parent) {
  auto state = std::make_shared<CommunicatorState>();
  state->handle = handle;
  state->owned = owned;
  runtime->free_communicators_of_one();
  state->age = runtime->next_communicator();
  state->name = std::move(name);
  state->runtime = std::move(runtime);
  state->parent = std::move(parent);
  if (owned) {
    check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", state->name);
    check(MPI_Comm_set_name(handle, state->name.c_str()), "MPI_Comm_set_name", state->name);
  }
  check(MPI_Comm_rank(handle, &state->rank), "MPI_Comm_rank", state->name);
  check(MPI_Comm_size(handle, &state->size), "MPI_Comm_size", state->name);
  if (!owned) return state;
  // All members have just made it, so all are here. Rank 0 draws the key; if any member wants to free communicators, all take part. (MPICH 4.0
  // compares MPI_UINT64_T as signed, hence the bitwise OR.)
  std::array<uint64_t, 2> all{state->rank == 0 ? (uint64_t{std::random_device{}()} << 32) + std::random_device{}() : 0,
                              state->runtime->wants_to_free() ? uint64_t{1} : 0};
  check(MPI_Allreduce(MPI_IN_PLACE, all.data(), 2, MPI_UINT64_T, MPI_BOR, handle), "MPI_Allreduce", state->name);
  state->key = all[0];
  if (all[1] != 0) state->runtime->free_communicators_queued_everywhere(Communicator(state));
  return state;
}

CommunicatorState::~CommunicatorState() {
  leave();
  Retired retired{.comm = handle,
                  .age = age,
                  .key = key,
                  .may_hold_leftovers = may_hold_leftovers,
                  .traffic = traffic.now(),
                  .announcements = std::move(announcements),
                  .kept = std::move(kept)};
  // The attachment has receives that MPI may still write into; the communicator is then never freed.
  if (retired.traffic.open != 0 && attachment) retired.kept.push_back(std::move(attachment));
  if (owned && runtime) {
    runtime->free_later(std::move(retired));
  } else {
    keep_for_ever(retired);
  }
}

void CommunicatorState::leave() noexcept {
  if (board && revoked_ancestor() == nullptr && std::uncaught_exceptions() == 0) board->record_release();
}

std::shared_ptr<CommunicatorState::Turns> CommunicatorState::turns_of(int from, int tag) {
  const std::lock_guard lock(turns_mutex);
  std::shared_ptr<Turns>& found = turns[{from, tag}];
  if (!found) found = std::make_shared<Turns>();
  return found;
}

void CommunicatorState::mark_revoked(const std::string& because) {
  revoked_because = because;
  revoked = true;
  runtime->knows_revoked() = true;
}

// Called each time the engine looks at an operation.
const CommunicatorState* CommunicatorState::revoked_ancestor() const noexcept {
  if (!runtime->knows_revoked().load(std::memory_order_acquire)) return nullptr;
  for (const CommunicatorState* state = this; state != nullptr; state = state->parent.get()) {
    if (state->revoked) return state;
  }
  return nullptr;
}

std::shared_ptr<void>& attachment(const Communicator& comm) noexcept { return comm.state()->attachment; }
std::vector<std::shared_ptr<void>> attachments_above(const Communicator& comm) {
  std::vector<std::shared_ptr<void>> all;
  for (const CommunicatorState* state = comm.state()->parent.get(); state != nullptr; state = state->parent.get()) {
    if (state->attachment) all.push_back(state->attachment);
  }
  return all;
}
void with_engine_paused(const Communicator& comm, const std::function<void()>& change) { comm.state()->runtime->engine().with_engine_paused(change); }

void set_activity(const Communicator& comm, const std::string& activity) {
  with_engine_paused(comm, [&] { comm.state()->activity = activity; });
}

// Records the calls made before the board existed.
void set_board(const Communicator& comm, std::shared_ptr<Board> board) {
  CommunicatorState& state = *comm.state();
  if (state.calls > 0) board->record(state.last_call, state.calls);
  if (state.finished > 0) board->record_end(state.finished);
  state.board = std::move(board);
}

void expect_own_thread(const Communicator& comm) {
  Runtime& runtime = *comm.state()->runtime;
  if (runtime.closed()) throw NotInitialisedError(concat("communication on '", comm.name(), "', whose Environment no longer exists,"));
  runtime.engine().expect_own_thread();
}

void expect_rank(const Communicator& comm, Rank rank) {
  TW_EXPECTS(rank >= 0 && rank < comm.size(), "rank ", rank, " is not a rank of '", comm.name(), "', whose size is ", comm.size());
}

const void* native(const Communicator& comm) noexcept { return &comm.state()->handle; }

Communicator duplicate_native(const void* mpi_comm) {
  const MPI_Comm handle = *static_cast<const MPI_Comm*>(mpi_comm);
  TW_EXPECTS(handle != MPI_COMM_NULL, "duplicate_of() needs a communicator, got MPI_COMM_NULL");
  const auto runtime = Runtime::current("Communicator::duplicate_of");
  int is_inter = 0;
  check(MPI_Comm_test_inter(handle, &is_inter), "MPI_Comm_test_inter", "user");
  TW_EXPECTS(is_inter == 0,
             "duplicate_of() needs a communicator of one group of ranks, got an intercommunicator: merge its groups (MPI_Intercomm_merge)");
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(handle, &copy), "MPI_Comm_dup", "user");
  auto state = make_communicator_state(copy, /*owned=*/true, "user/dup", runtime, nullptr);
  state->neighbours = find_neighbours(*state);
  return Communicator(std::move(state));
}

void meet(const Communicator& comm) {
  start(comm, {.collective = Collective::make_communicator}, collective_queue(comm).start(comm, barrier_transfer)).wait();
}

MPI_Comm make_node_handle(const Communicator& comm) {
  meet(comm);
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm.state()->handle, MPI_COMM_TYPE_SHARED, comm.rank(), MPI_INFO_NULL, &node), "MPI_Comm_split_type", comm.name());
  return node;
}

}  // namespace mpi

namespace {

// The neighbours of `parent` that are in `child`. Local.
std::vector<int> neighbours_in(const mpi::CommunicatorState& child, const mpi::CommunicatorState& parent) {
  MPI_Group from = MPI_GROUP_NULL;
  MPI_Group to = MPI_GROUP_NULL;
  mpi::check(MPI_Comm_group(parent.handle, &from), "MPI_Comm_group", parent.name);
  mpi::check(MPI_Comm_group(child.handle, &to), "MPI_Comm_group", child.name);
  std::vector<int> ranks(parent.neighbours.size());
  const int code = MPI_Group_translate_ranks(from, static_cast<int>(ranks.size()), parent.neighbours.data(), to, ranks.data());
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  mpi::check(code, "MPI_Group_translate_ranks", child.name);
  std::erase(ranks, MPI_UNDEFINED);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Communicator make_child(const Communicator& parent, MPI_Comm handle, const std::string& suffix) {
  auto state = mpi::make_communicator_state(handle, /*owned=*/true, parent.name() + "/" + suffix, parent.state()->runtime, parent.state());
  state->neighbours = neighbours_in(*state, *parent.state());
  return Communicator(std::move(state));
}

}  // namespace

Communicator::Communicator(std::shared_ptr<mpi::CommunicatorState> state) noexcept : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Rank Communicator::rank() const noexcept { return Rank(state_->rank); }
int Communicator::size() const noexcept { return state_->size; }
const std::string& Communicator::name() const noexcept { return state_->name; }
bool Communicator::audited() const noexcept { return state_->runtime->audit(); }
bool Communicator::revoked() const noexcept { return state_->revoked_ancestor() != nullptr; }

Communicator Communicator::dup() const {
  mpi::meet(*this);
  MPI_Comm copy = MPI_COMM_NULL;
  mpi::check(MPI_Comm_dup(state_->handle, &copy), "MPI_Comm_dup", state_->name);
  return make_child(*this, copy, "dup");
}

Communicator Communicator::split(int color, int key, std::string_view name) const {
  TW_EXPECTS(color >= 0, "split() needs a color of at least 0, got ", color);
  mpi::meet(*this);
  MPI_Comm part = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split(state_->handle, color, key, &part), "MPI_Comm_split", state_->name);
  return make_child(*this, part, name.empty() ? concat("split", color) : std::string(name));
}

// A group's color is the lowest rank that passed its name. Names are compared by a 64-bit hash.
Communicator Communicator::split(std::string_view group) const {
  const uint64_t mine = content_hash(group);
  std::vector<uint64_t> all(static_cast<size_t>(size()));
  mpi::allgather(*this, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const auto color = static_cast<int>(std::find(all.begin(), all.end(), mine) - all.begin());
  MPI_Comm part = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split(state_->handle, color, state_->rank, &part), "MPI_Comm_split", state_->name);
  return make_child(*this, part, std::string(group));
}

Communicator Communicator::split_by_node() const { return make_child(*this, mpi::make_node_handle(*this), "node"); }

void Communicator::barrier() const {
  mpi::start(*this, {.collective = Collective::barrier}, mpi::collective_queue(*this).start(*this, mpi::barrier_transfer)).wait();
}

void Communicator::revoke(std::string_view reason) const {
  mpi::expect_own_thread(*this);
  state_->runtime->engine().revoke(*state_, std::string(reason));
}

Communicator Communicator::subset(const std::vector<Rank>& members, std::chrono::milliseconds timeout) const {
  const auto is_valid = [&](Rank member) { return member >= 0 && member < size(); };
  TW_EXPECTS(std::all_of(members.begin(), members.end(), is_valid), "subset() of '", name(),
             "' needs ranks of this communicator as members, got other numbers");
  TW_EXPECTS(std::count(members.begin(), members.end(), rank()) == 1, "the members of subset() must contain this rank, ", rank(), ", exactly once");
  mpi::expect_own_thread(*this);
  mpi::rendezvous(state_, members, timeout);
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm part = MPI_COMM_NULL;
  const std::vector<int> ranks(members.begin(), members.end());
  mpi::check(MPI_Comm_group(state_->handle, &all), "MPI_Comm_group", name());
  mpi::check(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl", name());
  const int code = MPI_Comm_create_group(state_->handle, group, mpi::group_tag, &part);
  MPI_Group_free(&group);
  MPI_Group_free(&all);
  mpi::check(code, "MPI_Comm_create_group", name());
  auto state = mpi::make_communicator_state(part, /*owned=*/true, name() + "/subset", state_->runtime, state_->parent);
  state->neighbours = neighbours_in(*state, *state_);
  return Communicator(std::move(state));
}

}  // namespace tw
