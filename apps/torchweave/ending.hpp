// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// What the tool's exit codes say beside 0 and 1, an error.
enum ExitCode : int {
  diverged = 2,     ///< numbers went wrong and ended the run
  unfinished = 75,  ///< to be gone on with, by --resume: EX_TEMPFAIL of sysexits.h, by which batch systems know that a job is worth another try
};

/// Ends the ranks of a job together: what went wrong on all of them is written once, and what the launcher would add is left out where MPI lets us.
class Ending {
 public:
  /// Collective.
  explicit Ending(const Communicator& world);

  /// Returns when all ranks bring exit code 0; else writes each message once, and ends the job with the largest code. All ranks call it; who brings
  /// an error waits a second for the others, who may be in calls of which they never come back.
  void meet(const std::string& message, int exit_code) const;

 private:
  Communicator comm_;
};

}  // namespace tw::tool
