// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// The message of the exception that is being handled, without LibTorch's backtrace. For a RevokedError, the message is the reason passed to revoke()
/// by the rank that failed first. Call it in a catch block only. Local.
std::string message_of_current_exception();

/// A communicator for steps that may fail on one rank. The rank that fails revokes comm(), which ends the other ranks' waits. The next begin()
/// replaces it.
///
/// ```
/// StepCommunicator steps(comm);
/// if (steps.begin()) { ... }  // comm() was replaced: create all objects that use it again
/// try { ... } catch (...) { steps.fail(); throw; }
/// ```
class StepCommunicator {
 public:
  /// Collective. @param comm duplicated
  explicit StepCommunicator(const Communicator& comm);

  /// The communicator for operations inside a step. After a failure, begin() replaces it in place, so that references to it stay valid.
  const Communicator& comm() const noexcept { return step_; }

  /// A barrier that also works when comm() is revoked. Call it after all objects that use comm() have been created: otherwise a rank that fails in
  /// its first step could revoke comm() while another rank still creates these objects. Collective.
  void barrier() const { lasting_.barrier(); }
  /// Call it at the beginning of each step, on every rank. Local while comm() is not revoked; otherwise it is collective and replaces comm().
  /// @return whether comm() was replaced; the same on all ranks
  /// @throws RevokedError if another rank has begun more steps than this one. Then call begin() again, until this rank has begun the same number
  bool begin();
  /// Call it in the catch block of an exception that ends a step on this rank. It revokes comm() and the communicators derived from comm(): other
  /// ranks that wait on these throw a RevokedError with this exception's message. Local.
  void fail() const;

 private:
  Communicator lasting_;
  Communicator step_;
  int64_t begun_ = 0;  // steps
};

}  // namespace tw
