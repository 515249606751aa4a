// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <csignal>
#include <string>

namespace tw::train {

/// While alive, records SIGTERM and SIGUSR1 instead of letting them end the process. One instance at a time. Under Open MPI's mpirun, a SIGTERM makes
/// stdout and stderr non-blocking. The destructor restores them if the output has been read.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// "SIGTERM", "SIGUSR1", or "" if no signal has arrived.
  static std::string caught();

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_usr1_ = {};
  std::array<int, 2> old_flags_ = {};  // of stdout and stderr
};

}  // namespace tw::train
