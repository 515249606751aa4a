// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// Exit codes of the tool, in addition to 0 and 1, an error.
enum ExitCode : int {
  diverged = 2,     ///< a number that is not finite ended the run
  unfinished = 75,  ///< --resume continues the run. EX_TEMPFAIL of sysexits.h: batch systems start such a job again
};

/// How a command ended on this rank.
struct End {
  std::string message;  ///< the error; empty: none
  int exit_code = 0;
};

/// Ends the ranks of a job together. An error that is the same on all ranks is written once. The launcher adds no text of its own if MPI allows that.
class Ending {
 public:
  /// Collective.
  explicit Ending(const Communicator& world);

  /// Returns if all ranks have exit code 0. Otherwise writes each message once, and ends the job with the largest code. Collective; a rank with an
  /// error waits one second for the others, which may be in calls that never return.
  void end_together(const End& end) const;

 private:
  Communicator comm_;
};

}  // namespace tw::tool
