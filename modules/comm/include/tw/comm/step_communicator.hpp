// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// The message of the exception that is being handled, without LibTorch's stack.
std::string message_of_current_exception();

/// A communicator for steps that may fail on one rank. The rank that fails revokes it, which ends the other ranks' waits; the next step replaces it.
///
/// ```
/// StepCommunicator steps(comm);
/// bool is_new = steps.begin();       // whether what belongs to steps.comm() must be made again
/// try { ... } catch (...) { steps.fail(); throw; }
/// ```
class StepCommunicator {
 public:
  /// Collective. @param comm duplicated
  explicit StepCommunicator(const Communicator& comm);

  /// For the messages of steps. begin() replaces its content, so references stay valid.
  const Communicator& comm() const noexcept { return step_; }

  /// Returns when every rank has called it, whatever has failed. Call it when all that belongs to comm() is made: no rank then waits there for
  /// another one that fails in its first step. Collective.
  void meet() const { lasting_.barrier(); }
  /// Begins a step: one on each rank. Local, unless a step has failed since; then collective. @return whether comm() has been replaced, on all ranks
  /// alike
  /// @throws RevokedError if a later step has failed on other ranks: this rank fails its own steps until it has begun the same number
  bool begin();
  /// Call while you handle the exception that ends a step on this rank: revokes comm() and all that are derived from it. The other ranks' waits end
  /// with a RevokedError that has this exception's message. Local.
  void fail() const;

 private:
  Communicator lasting_;
  Communicator step_;
  int64_t begun_ = 0;  // steps
};

}  // namespace tw
