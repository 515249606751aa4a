// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <sched.h>

#include <tw/mpi/request.hpp>

namespace tw::mpi {

Request::Request() noexcept = default;
Request::Request(std::unique_ptr<RequestState> state) noexcept : state_(std::move(state)) {}
Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    park();
    state_ = std::move(other.state_);
  }
  return *this;
}

Request::~Request() { park(); }

void Request::park() noexcept {
  if (state_) state_->runtime->park(state_->handle, std::move(state_->keep_alive));
  state_.reset();
}

bool Request::test() {
  if (!state_) return true;
  int done = 0;
  check(MPI_Test(&state_->handle, &done, MPI_STATUS_IGNORE), state_->call, state_->communicator);
  if (done != 0) state_.reset();
  return done != 0;
}

void Request::wait() {
  // A few tests in a row catch what is about to complete; then the core goes to whoever has work, perhaps our own peer.
  constexpr int tests_before_yield = 16;
  while (true) {
    for (int i = 0; i < tests_before_yield; ++i) {
      if (test()) return;
    }
    sched_yield();
  }
}

}  // namespace tw::mpi
