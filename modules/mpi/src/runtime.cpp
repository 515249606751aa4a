// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/error.hpp>

namespace tw::mpi {
namespace {
// A process has one MPI. Calls that receive a bare MPI_Comm find its Environment here.
std::mutex current_mutex;
std::weak_ptr<Runtime> current_runtime;
}  // namespace

namespace {

int tag_upper_bound() {
  int* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr", "MPI_COMM_WORLD");
  return found != 0 ? *value : 0;
}

}  // namespace

void check(int code, const char* call, const std::string& communicator) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw MpiError(call, code, std::string(text.data(), static_cast<size_t>(length)), communicator);
}

Runtime::Runtime(const EnvironmentOptions& options, bool audit, ThreadLevel level, bool guest)
    : guest_(guest),
      audit_(audit),
      largest_message_(options.largest_message),
      largest_tag_(tag_upper_bound()),
      device_aware_(options.device_aware),
      drain_timeout_(options.drain_timeout),
      engine_({.warning = options.stall_warning, .abort = options.stall_abort}, level) {
  if (options.progress == ProgressDriver::thread) engine_.drive_by_thread();
}

std::shared_ptr<Runtime> Runtime::find_current() {
  const std::lock_guard lock(current_mutex);
  auto runtime = current_runtime.lock();
  return runtime && !runtime->closed_ ? runtime : nullptr;  // a communicator may outlive its Environment
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

void Runtime::free_later(Retired retired) {
  const std::lock_guard lock(mutex_);
  if (closed_) return keep_for_ever(retired);
  retired_.push_back(std::move(retired));
}

int64_t Runtime::communicators_to_free() {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(retired_.size());
}

bool Runtime::wants_to_free() {
  constexpr size_t between = 32;  // a pipeline stage or a search makes about ten
  const std::lock_guard lock(mutex_);
  stay_ = std::min(stay_, retired_.size());
  return retired_.size() >= stay_ + between;
}

void Runtime::free_communicators_of_one() {
  std::vector<Retired> freed;  // its `kept` may hold communicators, whose destructors call free_later()
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [&](Retired& retired) {
    if (!is_freeable_alone(retired)) return false;
    MPI_Comm_free(&retired.comm);
    freed.push_back(std::move(retired));
    return true;
  });
}

void Runtime::free_communicators() {
  const std::lock_guard lock(mutex_);
  std::sort(retired_.begin(), retired_.end(), [](const Retired& a, const Retired& b) { return a.age < b.age; });
  for (Retired& retired : retired_) {
    MPI_Comm_free(&retired.comm);
    keep_for_ever(retired);
  }
  retired_.clear();
}

// Communicates without the lock: the engine runs, and may complete a communicator's last operation, whose destructor then calls free_later().
void Runtime::free_communicators_queued_everywhere(const Communicator& comm) {
  std::vector<Retired> mine;
  {
    const std::lock_guard lock(mutex_);
    mine.swap(retired_);
  }
  std::vector<bool> freeable(mine.size());
  try {
    std::sort(mine.begin(), mine.end(), [](const Retired& a, const Retired& b) { return a.age < b.age; });
    freeable = find_freeable(comm, mine);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    std::move(mine.begin(), mine.end(), std::back_inserter(retired_));
    throw;
  }
  std::vector<Retired> stay;
  for (size_t i = 0; i < mine.size(); ++i) {
    if (freeable[i]) {
      MPI_Comm_free(&mine[i].comm);
    } else {
      stay.push_back(std::move(mine[i]));
    }
  }
  mine.clear();
  const std::lock_guard lock(mutex_);
  std::move(stay.begin(), stay.end(), std::back_inserter(retired_));
  stay_ = retired_.size();
}

void Runtime::close() {
  if (closed_) return;
  engine_.stop_thread();
  try {
    if (!engine_.drain(drain_timeout_)) {
      fail_to_close(concat("operations that were dropped before their completion did not complete within ", drain_timeout_.count(),
                           " ms: did every rank make the same calls?"));
      return;
    }
    free_communicators();
    operations_.free();
  } catch (const std::exception& error) {
    fail_to_close(error.what());
  }
  closed_ = true;
}

void Runtime::fail_to_close(const std::string& why) {
  if (!guest_) Environment::abort(why);
  log_error(why);
  abandon();
}

void Runtime::abandon() {
  engine_.stop_thread();
  engine_.abandon();
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (Retired& retired : retired_) keep_for_ever(retired);
  retired_.clear();
}

}  // namespace tw::mpi
