// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/App.hpp>

namespace tw::tool {

/// Whether the command line is that of `torchweave launch`, which does not initialise MPI.
bool is_launch(int argc, char** argv);

/// torchweave launch [-n N] [--hosts a:2,b:2] [--restart K] ... -- PROGRAM ARGUMENTS...  @return the tool's exit code
int run_launch(int argc, char** argv);

/// For the list of commands.
void add_launch(CLI::App& app);

}  // namespace tw::tool
