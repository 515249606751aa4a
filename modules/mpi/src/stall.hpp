// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime.hpp"

namespace tw::mpi {

/// Watches one long wait: reports the late ranks after `warning`. After `abort` it aborts the job; on an adopted MPI, look() then returns why
/// the wait must end.
class Stall {
 public:
  Stall(Clock::time_point begin, std::chrono::milliseconds warning, std::chrono::milliseconds abort)
      : begin_(begin), first_begin_(begin), warning_(warning), abort_(abort) {}

  /// The wait has made progress: both times count from now.
  void begin_again(Clock::time_point now) {
    begin_ = now;
    announced_ = warned_ = false;
  }

  /// Call it from time to time, under the engine's lock. @return on an adopted MPI, why the wait must end; otherwise empty
  std::string look(const Operation& operation, Clock::time_point now);
  /// Describes a rank that left without making the call that `operation` waits for, so that it can never complete; empty if there is none. Reports
  /// this only a moment after first seeing it, because a revocation with the reason may be in flight.
  std::string who_left(const Operation& operation, Clock::time_point now);

 private:
  Clock::time_point begin_;
  Clock::time_point first_begin_;
  std::chrono::milliseconds warning_;
  std::chrono::milliseconds abort_;
  bool announced_ = false;
  bool warned_ = false;
  std::optional<Clock::time_point> saw_leave_;
};

/// Describes which ranks keep `operation` waiting, and what they were last seen doing. No side effects; reads the board.
std::string explain_wait(const Operation& operation, std::chrono::milliseconds waited);

}  // namespace tw::mpi
