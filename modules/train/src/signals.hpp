// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <csignal>
#include <string>

namespace tw::train {

/// While it lives, SIGTERM and SIGUSR1 do not end the process but are remembered. One at a time. Under Open MPI's mpirun, writing to stdout and
/// stderr does not wait after a SIGTERM; at the end it does again, if what was written has been read.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// "SIGTERM", "SIGUSR1", or "" when none has come.
  static std::string caught();

 private:
  struct sigaction old_term_ = {};
  struct sigaction old_usr1_ = {};
  std::array<int, 2> old_flags_ = {};  // of stdout and stderr
};

}  // namespace tw::train
