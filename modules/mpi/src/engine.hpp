// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tw/base/call.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/environment.hpp>
#include <vector>

namespace tw::mpi {

using Clock = std::chrono::steady_clock;

struct CommunicatorState;

/// The state that a Work refers to.
struct Operation {
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  /// Logs a failure that was never reported.
  ~Operation();

  Call call;
  bool of_all = true;   // whether all ranks of the communicator take part, if it is a collective
  uint64_t number = 0;  // position among the communicator's collective calls; 0: not a collective of all ranks
  std::shared_ptr<CommunicatorState> comm;
  std::unique_ptr<Transfer> transfer;
  std::function<void()> finish;
  std::shared_ptr<Completion> completion;
  std::exception_ptr failure;
  bool reported = false;  // whether the holder of the Work has seen the failure
  bool survives_revocation = false;
  std::atomic<bool> in_stream = false;  // only work on device streams remains
  std::atomic<bool> done = false;

  bool is_done(bool on_host = false) const { return done.load(std::memory_order_acquire) || (!on_host && in_stream.load(std::memory_order_acquire)); }
};

/// Advances the operations in flight: inside waits and tests (the inline driver), and optionally on a progress thread. An operation stays here until
/// it completes, whether or not a Work refers to it.
class Engine {
 public:
  struct Watch {
    std::chrono::milliseconds warning;
    std::chrono::milliseconds abort;
  };

  /// @param level granted by MPI; up to `funneled`, only the thread that makes the engine may use it
  Engine(const Watch& watch, ThreadLevel level);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void drive_by_thread();
  /// Applies to waits that begin from now on.
  void watch(const Watch& watch);

  /// Starts `operation`, and advances it once unless many others are in flight.
  void add(const std::shared_ptr<Operation>& operation);
  /// Advances everything once; does nothing while another thread is inside. @return the number of operations it looked at
  size_t progress();
  /// Advances everything until `operation` is complete; unless `on_host`, also returns when only stream work remains. False if `deadline` passes
  /// first.
  /// @param activity see Work::wait()
  bool wait(Operation& operation, std::optional<Clock::time_point> deadline, bool on_host = false, const std::function<int64_t()>& activity = {});
  /// Advances everything until `is_done()`. Reports late ranks of the operations on streams.
  void wait_for_streams(const std::function<bool()>& is_done);
  /// The same for a wait on other ranks: on `call.peer`, or on all of them in a barrier. Also allowed inside the engine, where a handler waits.
  /// @param activity see mpi::wait_until()
  void wait_for_peer(const std::shared_ptr<CommunicatorState>& comm, const Call& call, const std::function<bool()>& is_done,
                     const std::function<int64_t()>& activity);
  /// Advances everything until nothing is left; false if `timeout` passes first.
  bool drain(std::chrono::milliseconds timeout);

  /// Marks `comm` revoked, informs its other members, and fails its operations.
  void revoke(CommunicatorState& comm, const std::string& reason);

  /// @throws ContractError if MPI does not let the calling thread communicate.
  void expect_own_thread() const;

  void with_engine_paused(const std::function<void()>& change);
  /// Drops everything in flight without freeing it.
  void abandon();
  void stop_thread();
  size_t in_flight();

 private:
  template <class IsDone, class Look>
  void advance_until(const IsDone& is_done, size_t looks_before_yield, const std::function<int64_t()>& activity, const Look& look);
  /// Whether the calling thread is advancing an operation.
  bool is_inside() const noexcept { return driver_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  size_t progress_locked();
  void listen_now_and_then();
  bool advance(Operation& operation);
  void end(Operation& operation);
  void fail(Operation& operation, std::exception_ptr failure);
  void keep(Operation& operation);
  void revoke_locked(CommunicatorState& comm, const std::string& reason);
  void run_thread(const std::stop_token& stop);

  std::atomic<std::chrono::milliseconds> stall_warning_;
  std::atomic<std::chrono::milliseconds> stall_abort_;
  const ThreadLevel level_;
  const std::thread::id own_thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::atomic<std::thread::id> driver_ = {};  // thread that is advancing an operation
  std::vector<std::shared_ptr<Operation>> active_;
  std::condition_variable_any work_arrived_;
  uint64_t rounds_ = 0;
  Clock::time_point next_listening_;
  std::jthread thread_;  // last member: it uses all of the above, and is joined first
};

}  // namespace tw::mpi
