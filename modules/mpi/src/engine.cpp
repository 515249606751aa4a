// SPDX-License-Identifier: Apache-2.0
#include "runtime.hpp"

#include <sched.h>

#include <algorithm>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/error.hpp>
#include <utility>

#include "control.hpp"
#include "requests.hpp"
#include "stall.hpp"

namespace tw::mpi {
namespace {

constexpr auto look_every = std::chrono::microseconds(200);

// Whether the progress count of a wait has changed.
bool has_changed(std::optional<int64_t>& seen, int64_t now) { return std::exchange(seen, now) != now; }

/// Records which thread is inside the engine, for the lifetime of this object.
class Inside {
 public:
  explicit Inside(std::atomic<std::thread::id>& driver) : driver_(driver) { driver_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  ~Inside() { driver_.store({}, std::memory_order_relaxed); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<std::thread::id>& driver_;
};

bool is_collective(const Call& call) { return call.collective != Collective::send && call.collective != Collective::receive; }

}  // namespace

Operation::~Operation() {
  if (!failure || reported) return;
  try {
    std::rethrow_exception(failure);
  } catch (const RevokedError&) {  // known on all ranks: a revocation ends everything in flight
  } catch (const std::exception& error) {
    log_error(concat("a dropped operation failed: ", call.describe(), ": ", error.what()));
  } catch (...) {
    log_error(concat("a dropped operation failed: ", call.describe()));
  }
}

Engine::Engine(const Watch& watch, ThreadLevel level) : stall_warning_(watch.warning), stall_abort_(watch.abort), level_(level) {}

void Engine::expect_own_thread() const {
  TW_EXPECTS(level_ >= ThreadLevel::serialized || std::this_thread::get_id() == own_thread_, "a thread that did not initialise MPI communicates at ",
             to_string(level_),
             ": set EnvironmentOptions::thread_level to ThreadLevel::serialized (gradient hooks run on the thread that calls backward(), or on a "
             "thread of autograd)");
}

void Engine::watch(const Watch& watch) {
  stall_warning_ = watch.warning;
  stall_abort_ = watch.abort;
}

void Engine::drive_by_thread() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run_thread(stop); });
}

void Engine::add(const std::shared_ptr<Operation>& operation) {
  expect_own_thread();
  const std::lock_guard lock(mutex_);
  CommunicatorState& comm = *operation->comm;
  if (is_collective(operation->call) && operation->of_all) {
    operation->number = ++comm.calls;
    comm.last_call = operation->call;
    if (comm.board) comm.board->record(operation->call, operation->number);
  }
  // If many operations are in flight, this one waits for the next call of progress(): messages started back to back share packets.
  constexpr size_t many = 64;
  if (active_.size() < many && advance(*operation)) return;
  active_.push_back(operation);
  if (thread_.joinable()) work_arrived_.notify_one();
}

size_t Engine::progress() {
  expect_own_thread();
  if (is_inside()) return 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock ? progress_locked() : 0;
}

size_t Engine::progress_locked() {
  listen_now_and_then();
  const size_t looks = active_.size();
  std::erase_if(active_, [this](const std::shared_ptr<Operation>& operation) { return advance(*operation); });
  return looks;
}

// Listens on all communicators with operations in flight. No rank may wait on one that another rank revoked, whatever it waits for.
void Engine::listen_now_and_then() {
  constexpr int rounds_before_look = 16;
  if (++rounds_ % rounds_before_look != 0) return;
  const auto now = Clock::now();
  if (now < next_listening_) return;
  next_listening_ = now + look_every;
  std::set<CommunicatorState*> heard;
  for (const auto& operation : active_) {
    if (heard.insert(operation->comm.get()).second) listen(*operation->comm);
  }
}

// True when `operation` has ended, successfully or not.
bool Engine::advance(Operation& operation) {
  const Inside inside(driver_);
  try {
    if (const auto* revoked = operation.comm->revoked_ancestor(); revoked != nullptr && !operation.survives_revocation) {
      throw RevokedError(revoked->name, operation.call.describe(), revoked->revoked_because);
    }
    if (!operation.in_stream) {
      if (!operation.transfer->advance()) return false;
      if (operation.finish) operation.finish();
    }
    if (operation.completion && operation.completion->is_watched()) {
      operation.in_stream.store(true, std::memory_order_release);
      if (!operation.completion->is_done()) return false;
    }
  } catch (...) {
    operation.failure = std::current_exception();
    if (operation.completion) operation.completion->give_up();
    keep(operation);
  }
  end(operation);
  return true;
}

void Engine::end(Operation& operation) {
  CommunicatorState& comm = *operation.comm;
  if (operation.number > 0) {
    ++comm.finished;
    if (comm.board) comm.board->record_end(comm.finished);
  }
  operation.transfer.reset();
  operation.finish = nullptr;
  operation.done.store(true, std::memory_order_release);
}

// Fails an operation in flight that no other code is advancing. If no Work refers to it, this destroys it.
void Engine::fail(Operation& operation, std::exception_ptr failure) {
  operation.failure = std::move(failure);
  if (operation.completion) operation.completion->give_up();
  keep(operation);
  end(operation);
  const auto at = std::find_if(active_.begin(), active_.end(), [&](const std::shared_ptr<Operation>& each) { return each.get() == &operation; });
  if (at != active_.end()) active_.erase(at);
}

// A failed operation may have messages in flight: MPI or a peer may still touch its memory. It is kept as long as its communicator.
void Engine::keep(Operation& operation) {
  operation.comm->kept.push_back(
      std::make_shared<std::pair<std::unique_ptr<Transfer>, std::function<void()>>>(std::move(operation.transfer), std::move(operation.finish)));
}

// Spins first, in case completion is near; then yields the core to other threads, perhaps those of our peer. `look` checks the wait from time to
// time, under the lock, and ends it by returning false. If the wait is inside the engine (in a handler), nothing else advances.
template <class IsDone, class Look>
void Engine::advance_until(const IsDone& is_done, size_t looks_before_yield, const std::function<int64_t()>& activity, const Look& look) {
  std::optional<Stall> stall;
  std::optional<int64_t> seen;
  Clock::time_point next_look;
  size_t looks = 0;
  while (!is_done()) {
    looks += std::max<size_t>(progress(), 1);
    if (looks < looks_before_yield) continue;
    looks = 0;
    sched_yield();
    const bool has_come_further = activity && has_changed(seen, activity());
    const auto now = Clock::now();
    if (!stall) {
      stall.emplace(now, stall_warning_, stall_abort_);
      next_look = now + look_every;
    }
    if (has_come_further) stall->begin_again(now);
    if (now < next_look) continue;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!is_inside() && !lock.try_lock()) continue;
    if (!look(*stall, now)) return;
    next_look = now + look_every;
  }
}

bool Engine::wait(Operation& operation, std::optional<Clock::time_point> deadline, bool on_host, const std::function<int64_t()>& activity) {
  const CommunicatorState& comm = *operation.comm;
  const bool is_across_nodes = !comm.neighbours.empty() && std::ssize(comm.neighbours) < comm.size;
  const size_t looks_before_yield = is_across_nodes ? 64 : 16;  // looks per operation in flight; a message from another node takes longer
  const auto is_done = [&] { return operation.is_done(on_host); };
  bool in_time = true;
  advance_until(is_done, looks_before_yield, activity, [&](Stall& stall, Clock::time_point now) {
    if (is_done()) return true;  // another thread completed it
    in_time = !deadline || now <= *deadline;
    if (!in_time) return false;
    if (const std::string why = stall.look(operation, now); !why.empty()) revoke_locked(*operation.comm, why);
    if (const std::string left = stall.who_left(operation, now); !left.empty()) fail(operation, std::make_exception_ptr(Error(left)));
    return true;
  });
  return in_time;
}

void Engine::wait_for_streams(const std::function<bool()>& is_done) {
  advance_until(is_done, 1, {}, [&](Stall& stall, Clock::time_point now) {
    const auto in_stream = [](const std::shared_ptr<Operation>& each) { return each->in_stream.load(); };
    const auto first = std::find_if(active_.begin(), active_.end(), in_stream);
    if (first == active_.end()) return true;
    Operation& operation = **first;
    if (const std::string why = stall.look(operation, now); !why.empty()) {
      revoke_locked(*operation.comm, why);
      throw RevokedError(operation.comm->name, operation.call.describe(), why);
    }
    if (const std::string left = stall.who_left(operation, now); !left.empty()) {
      fail(operation, std::make_exception_ptr(Error(left)));
      throw Error(left);
    }
    return true;
  });
}

void Engine::wait_for_peer(const std::shared_ptr<CommunicatorState>& comm, const Call& call, const std::function<bool()>& is_done,
                           const std::function<int64_t()>& activity) {
  Operation waited;  // never started: describes the wait in reports
  waited.call = call;
  waited.comm = comm;
  advance_until(is_done, 1, activity, [&](Stall& stall, Clock::time_point now) {
    listen(*comm);
    const std::string why = stall.look(waited, now);
    if (!why.empty()) {
      revoke_locked(*comm, why);
      throw RevokedError(comm->name, call.describe(), why);
    }
    return true;
  });
}

bool Engine::drain(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const std::lock_guard lock(mutex_);
  while (true) {
    progress_locked();
    if (active_.empty()) return true;
    if (Clock::now() > deadline) return false;
    sched_yield();
  }
}

void Engine::revoke(CommunicatorState& comm, const std::string& reason) {
  expect_own_thread();
  const std::lock_guard lock(mutex_);
  if (comm.revoked) return;
  revoke_locked(comm, reason);
  progress_locked();
}

void Engine::revoke_locked(CommunicatorState& comm, const std::string& reason) {
  if (comm.revoked) return;
  comm.mark_revoked(reason);
  tell_revoked(comm);
}

void Engine::with_engine_paused(const std::function<void()>& change) {
  const std::lock_guard lock(mutex_);
  change();
}

void Engine::abandon() {
  const std::lock_guard lock(mutex_);
  if (!active_.empty()) [[maybe_unused]]
    const auto* kept = new std::vector(std::move(active_));
  active_.clear();
}

void Engine::stop_thread() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

size_t Engine::in_flight() {
  const std::lock_guard lock(mutex_);
  return active_.size();
}

// Sleeps while nothing is in flight. Otherwise polls often enough for a network, and leaves the core to computing threads in between.
void Engine::run_thread(const std::stop_token& stop) {
  constexpr auto pause = std::chrono::microseconds(50);
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    work_arrived_.wait(lock, stop, [this] { return !active_.empty(); });
    progress_locked();
    lock.unlock();
    std::this_thread::sleep_for(pause);
    lock.lock();
  }
}

void wait_until(const Communicator& comm, const std::function<bool()>& is_done) {
  comm.state()->runtime->engine().wait_for_streams(is_done);
  expect_not_revoked(*comm.state(), "a wait for a device");
}

void wait_until(const Communicator& comm, const Call& call, const std::function<bool()>& is_done, const std::function<int64_t()>& activity) {
  const std::shared_ptr<CommunicatorState>& state = comm.state();
  const auto is_over = [&] {
    if (is_done()) return true;
    expect_not_revoked(*state, name_of(call.collective));
    return false;
  };
  state->runtime->engine().wait_for_peer(state, call, is_over, activity);
}

Work start(const Communicator& comm, const Call& call, std::unique_ptr<Transfer> transfer, std::function<void()> finish,
           std::shared_ptr<Completion> completion) {
  auto operation = std::make_shared<Operation>();
  operation->call = call;
  operation->comm = comm.state();
  operation->transfer = std::move(transfer);
  operation->finish = std::move(finish);
  operation->completion = std::move(completion);
  operation->comm->runtime->engine().add(operation);
  return Work(std::move(operation));
}

}  // namespace tw::mpi

namespace tw {

int64_t operations_in_flight(const Communicator& comm) { return static_cast<int64_t>(comm.state()->runtime->engine().in_flight()); }

void progress(const Communicator& comm) { comm.state()->runtime->engine().progress(); }

}  // namespace tw
