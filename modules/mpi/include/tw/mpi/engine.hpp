// SPDX-License-Identifier: Apache-2.0
// The one engine behind every communication, for those who add ways to communicate. Programs need `progress()` at most.
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

  /// Whether it takes other ranks. Waits end all the same; but the engine keeps the operation until it is done, so that whoever waits on the host
  /// learns who is late, and a revocation ends it.
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

/// Returns when `is_done()`, which takes other ranks through what is in streams of a device alone: advances everything meanwhile, and looks after the
/// wait as after any other. @throws RevokedError where `comm` is revoked
void wait_until(const Communicator& comm, const std::function<bool()>& is_done);

/// Returns when `is_done()`, which takes another rank: advances everything meanwhile, and is watched like any other wait.
/// @param call what this rank waits in, for the warning and the abort; its peer is the rank that is waited for
/// @param activity changes whenever the wait has come further; the watch then begins again. Empty: only the end counts
/// @throws RevokedError where `comm` is revoked
void wait_until(const Communicator& comm, const Call& call, const std::function<bool()>& is_done, const std::function<int64_t()>& activity = {});

/// Where the ranks of a communicator write what they do, so that others can read it without their help.
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
