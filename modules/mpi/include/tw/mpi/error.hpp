// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/error.hpp>

namespace tw {

/// An MPI call failed. The message contains the call, MPI's own text and the communicator's name.
class MpiError : public Error {
 public:
  MpiError(const std::string& call, int code, const std::string& explanation, const std::string& communicator);
  /// MPI's error code.
  int code() const noexcept { return code_; }

 private:
  int code_;
};

/// A communicator, or one from which it was derived, was revoked (Communicator::revoke(), EnvironmentOptions::stall_abort). Operations on it never
/// complete. Communicator::subset() of the revoked communicator creates a new one.
class RevokedError : public Error {
 public:
  RevokedError(const std::string& communicator, const std::string& during, const std::string& reason);
};

/// A function needs MPI, but no `Environment` exists.
class NotInitialisedError : public Error {
 public:
  explicit NotInitialisedError(const std::string& what_needs_it);
};

}  // namespace tw
