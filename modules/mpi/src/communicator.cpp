// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <tw/base/contract.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw {
namespace mpi {

std::unique_ptr<CommunicatorState> make_communicator_state(MPI_Comm handle, bool owned, std::string name, std::shared_ptr<Runtime> runtime) {
  auto state = std::make_unique<CommunicatorState>();
  state->handle = handle;
  state->owned = owned;
  state->age = runtime->next_communicator();
  state->name = std::move(name);
  state->runtime = std::move(runtime);
  if (owned) {
    check(MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", state->name);
    check(MPI_Comm_set_name(handle, state->name.c_str()), "MPI_Comm_set_name", state->name);
  }
  check(MPI_Comm_rank(handle, &state->rank), "MPI_Comm_rank", state->name);
  check(MPI_Comm_size(handle, &state->size), "MPI_Comm_size", state->name);
  return state;
}

}  // namespace mpi

namespace {

Communicator duplicate(MPI_Comm handle, const std::string& name, const std::shared_ptr<mpi::Runtime>& runtime) {
  MPI_Comm copy = MPI_COMM_NULL;
  mpi::check(MPI_Comm_dup(handle, &copy), "MPI_Comm_dup", name);
  return Communicator(mpi::make_communicator_state(copy, /*owned=*/true, name + "/dup", runtime));
}

// The MPI handle is not freed here: MPI_Comm_free is collective, and a destructor may run while only this rank unwinds.
void retire(std::unique_ptr<mpi::CommunicatorState>& state) noexcept {
  if (state && state->owned) state->runtime->free_later(state->handle, state->age);
  state.reset();
}

}  // namespace

Communicator::Communicator(std::unique_ptr<mpi::CommunicatorState> state) noexcept : state_(std::move(state)) {}
Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}

Communicator::~Communicator() { retire(state_); }

Communicator Communicator::duplicate_native(const void* mpi_comm) {
  const MPI_Comm handle = *static_cast<const MPI_Comm*>(mpi_comm);
  TW_EXPECTS(handle != MPI_COMM_NULL, "duplicate_of() was given MPI_COMM_NULL");
  return duplicate(handle, "user", mpi::Runtime::current("Communicator::duplicate_of"));
}

Rank Communicator::rank() const noexcept { return Rank(state_->rank); }
int Communicator::size() const noexcept { return state_->size; }
const std::string& Communicator::name() const noexcept { return state_->name; }
bool Communicator::audited() const noexcept { return state_->runtime->audit(); }
const void* Communicator::native() const noexcept { return &state_->handle; }

Communicator Communicator::dup() const { return duplicate(state_->handle, state_->name, state_->runtime); }

Communicator Communicator::split(int color, int key) const {
  TW_EXPECTS(color >= 0, "split() needs a color of at least 0, got ", color);
  MPI_Comm part = MPI_COMM_NULL;
  mpi::check(MPI_Comm_split(state_->handle, color, key, &part), "MPI_Comm_split", state_->name);
  return Communicator(mpi::make_communicator_state(part, /*owned=*/true, concat(state_->name, "/split", color), state_->runtime));
}

void Communicator::barrier() const { mpi::check(MPI_Barrier(state_->handle), "MPI_Barrier", state_->name); }

}  // namespace tw
