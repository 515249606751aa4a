// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <tw/mpi/error.hpp>

namespace tw::mpi {
namespace {
// MPI itself is one per process; this is where its Environment is found by calls that are handed a bare MPI_Comm.
std::mutex current_mutex;
std::weak_ptr<Runtime> current_runtime;
}  // namespace

void check(int code, const char* call, const std::string& communicator) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(call, code, std::string(text.data(), static_cast<size_t>(length)), communicator);
}

std::shared_ptr<Runtime> Runtime::find_current() {
  const std::lock_guard lock(current_mutex);
  return current_runtime.lock();
}

std::shared_ptr<Runtime> Runtime::current(const std::string& user) {
  auto runtime = find_current();
  if (!runtime) throw NotInitialisedError(user);
  return runtime;
}

void Runtime::set_current(const std::shared_ptr<Runtime>& runtime) {
  const std::lock_guard lock(current_mutex);
  current_runtime = runtime;
}

void Runtime::free_later(MPI_Comm comm, uint64_t age) {
  const std::lock_guard lock(mutex_);
  retired_.push_back({comm, age});
}

void Runtime::park(MPI_Request request, std::shared_ptr<void> keep_alive) {
  const std::lock_guard lock(mutex_);
  parked_.push_back({request, std::move(keep_alive)});
}

bool Runtime::reap_locked() {
  std::erase_if(parked_, [](Parked& parked) {
    int done = 0;
    check(MPI_Test(&parked.request, &done, MPI_STATUS_IGNORE), "MPI_Test", "of a dropped operation");
    return done != 0;
  });
  return parked_.empty();
}

void Runtime::reap() {
  const std::lock_guard lock(mutex_);
  reap_locked();
}

bool Runtime::drain(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!reap_locked()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    sched_yield();
  }
  return true;
}

void Runtime::free_communicators() {
  const std::lock_guard lock(mutex_);
  std::sort(retired_.begin(), retired_.end(), [](const Retired& a, const Retired& b) { return a.age < b.age; });
  for (Retired& retired : retired_) MPI_Comm_free(&retired.comm);
  retired_.clear();
}

void Runtime::abandon() {
  const std::lock_guard lock(mutex_);
  if (!parked_.empty()) [[maybe_unused]]
    const auto* leaked = new std::vector<Parked>(std::move(parked_));
  parked_.clear();
  retired_.clear();
}

}  // namespace tw::mpi
