// SPDX-License-Identifier: Apache-2.0
// The engine that drives every communication, for developers of transports. Programs need `progress()` at most.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>

namespace tw {

namespace mpi {

/// What moves the data of an operation: requests of MPI, an exchange through shared memory.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;
  /// Does what can be done without waiting; true once complete, and then it is not called again. Called by one thread at a time. @throws on failure
  virtual bool advance() = 0;
};

/// What the results of an operation may still wait for when its transfer is complete: what streams of a device have yet to do.
class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  virtual ~Completion() = default;
  /// Makes the current stream wait. Called by each wait for the operation.
  virtual void join_stream() = 0;
  /// Returns when it is done.
  virtual void wait_on_host() = 0;

  /// Whether completion depends on other ranks. Waits end regardless, but the engine keeps the operation until it is done: a wait on the host then
  /// reports late ranks, and a revocation ends it.
  virtual bool is_watched() const { return false; }
  virtual bool is_done() { return true; }
  /// Ends it: the others may never come.
  virtual void give_up() {}
};

/// Puts `transfer` into the engine, and advances it once unless many others are in flight. Local.
/// @param call for messages, and for the record of what this rank was last seen doing.
/// @param finish runs once after the transfer, wherever the engine is driven from; it may hold what must stay alive until then.
/// @param completion of what the transfer or `finish` have begun.
/// The result throws RevokedError when `comm` is revoked.
Work start(const Communicator& comm, const Call& call, std::unique_ptr<Transfer> transfer, std::function<void()> finish = {},
           std::shared_ptr<Completion> completion = {});

/// Drives progress until `is_done()`, advancing all operations, and monitors the wait like any other. For conditions that other ranks fulfil only
/// through operations on device streams. @throws RevokedError where `comm` is revoked
void wait_until(const Communicator& comm, const std::function<bool()>& is_done);

/// Drives progress until `is_done()`, which depends on another rank: advances all operations meanwhile, and monitors the wait like any other.
/// @param call the call in which this rank waits, for the warning and the abort; its peer is the awaited rank
/// @param activity changes whenever the wait has progressed; the watchdog then restarts. Empty: only completion counts
/// @throws RevokedError where `comm` is revoked
void wait_until(const Communicator& comm, const Call& call, const std::function<bool()>& is_done, const std::function<int64_t()>& activity = {});

/// Where the ranks of a communicator record their calls, so that others can read them without their help.
class Board {
 public:
  virtual ~Board() = default;
  /// @param number of collective calls begun, this one included.
  virtual void record(const Call& call, uint64_t number) = 0;
  /// @param finished number of collective calls ended.
  virtual void record_end(uint64_t finished) = 0;
  /// This rank has given the communicator up.
  virtual void record_left() = 0;
  /// Nothing where `rank` does not write here.
  virtual std::optional<LastSeen> last_seen(int rank) const = 0;
};

}  // namespace mpi

/// Advances all operations in flight, without waiting. For programs that compute for long between calls; where a thread drives the engine it has
/// nothing to do. Local.
void progress(const Communicator& comm);

/// How many operations this rank has in flight, on all communicators. Local.
int64_t operations_in_flight(const Communicator& comm);

}  // namespace tw
