// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime.hpp"

namespace tw::mpi {

/// Looks after one long wait: names the late ranks after one time, and aborts the job after another.
class Stall {
 public:
  Stall(Clock::time_point begin, std::chrono::milliseconds warning, std::chrono::milliseconds abort)
      : begin_(begin), first_begin_(begin), warning_(warning), abort_(abort) {}

  /// The wait has come further: both times count from now.
  void begin_again(Clock::time_point now) {
    begin_ = now;
    told_ = warned_ = false;
  }

  /// To be called every now and then, under the engine's lock.
  void look(const Operation& operation, Clock::time_point now);
  /// Who has left without the call that `operation` waits for, which then never completes; empty if none. A moment after that was first seen, since a
  /// revocation may be on its way, which says why.
  std::string who_left(const Operation& operation, Clock::time_point now);

 private:
  Clock::time_point begin_;
  Clock::time_point first_begin_;
  std::chrono::milliseconds warning_;
  std::chrono::milliseconds abort_;
  bool told_ = false;
  bool warned_ = false;
  std::optional<Clock::time_point> saw_leave_;
};

/// Which ranks keep `operation` waiting, and what they were last seen doing. Pure but for reading the board.
std::string explain_wait(const Operation& operation, std::chrono::milliseconds waited);

}  // namespace tw::mpi
