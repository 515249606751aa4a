// SPDX-License-Identifier: Apache-2.0
// The engine that drives all communication, for developers of transports. Programs need at most `progress()`. The watchdog reports waits that last
// too long, see EnvironmentOptions::stall_warning and stall_abort.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>

namespace tw {

namespace mpi {

/// Moves the data of an operation, for example by MPI requests or through shared memory.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;
  /// Advances without waiting; returns true once complete, and is then not called again. Called by one thread at a time. Throws if the transfer
  /// fails.
  virtual bool advance() = 0;
};

/// Work on device streams that the results of an operation still need when its transfer is complete.
class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  virtual ~Completion() = default;
  /// Makes the current stream wait for this work. Each wait for the operation calls it.
  virtual void join_stream() = 0;
  /// Blocks the host until this work is done.
  virtual void wait_on_host() = 0;

  /// Whether this work depends on other ranks. If so, the engine keeps the operation until is_done(), and Work::wait_on_host() reports late ranks and
  /// ends when the communicator is revoked. Work::wait() does not wait for this work.
  virtual bool is_watched() const { return false; }
  virtual bool is_done() { return true; }
  /// Abandons this work, because other ranks may never do their part of it.
  virtual void give_up() {}
};

/// Puts `transfer` into the engine, and advances it once unless many others are in flight. Local.
/// @param call describes the operation in logs, in errors and in the record of this rank's last call.
/// @param finish runs once after the transfer, on whichever thread drives the engine; it may own objects that must live until then.
/// @param completion device work that the transfer or `finish` has begun.
/// @return the handle to wait on; its waits throw RevokedError if `comm` is revoked before completion.
Work start(const Communicator& comm, const Call& call, std::unique_ptr<Transfer> transfer, std::function<void()> finish = {},
           std::shared_ptr<Completion> completion = {});

/// Advances all operations until `is_done()` returns true. Use it for conditions that other ranks fulfil only through operations on device streams.
/// The watchdog monitors this wait. @throws RevokedError if `comm` is revoked
void wait_until(const Communicator& comm, const std::function<bool()>& is_done);

/// Like wait_until() above, for a condition that depends on another rank.
/// @param call names the call in which this rank waits, in the watchdog's messages; `call.peer` is the awaited rank
/// @param activity returns a different number whenever the wait has progressed; the watchdog's time then starts again. Empty: only completion counts
/// @throws RevokedError if `comm` is revoked
void wait_until(const Communicator& comm, const Call& call, const std::function<bool()>& is_done, const std::function<int64_t()>& activity = {});

/// The place where ranks of a communicator record their calls, for other ranks to read at any time.
class Board {
 public:
  virtual ~Board() = default;
  /// @param number number of collective calls that this rank has begun, including this one.
  virtual void record(const Call& call, uint64_t number) = 0;
  /// @param finished number of this rank's collective calls that have ended.
  virtual void record_end(uint64_t finished) = 0;
  /// Records that this rank has released the communicator.
  virtual void record_release() = 0;
  /// The last known call of `rank`; std::nullopt if `rank` does not record its calls here.
  virtual std::optional<LastSeen> last_seen(int rank) const = 0;
};

}  // namespace mpi

/// Advances all operations in flight, without waiting. For programs that compute for long between calls; unnecessary with ProgressDriver::thread.
/// Local.
void progress(const Communicator& comm);

/// The number of operations that this rank has in flight on all communicators. Local.
int64_t operations_in_flight(const Communicator& comm);

}  // namespace tw
