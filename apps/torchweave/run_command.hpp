// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/environment.hpp>

namespace tw::tool {

/// How a command ended on this rank.
struct End {
  std::string message;  ///< what went wrong; empty: nothing
  int exit_code = 0;
};

/// Runs the command that the command line names, on all ranks. `--help` prints on rank 0. Reports are printed, errors are returned.
End run_command(int argc, const char* const* argv, Environment& mpi);

}  // namespace tw::tool
