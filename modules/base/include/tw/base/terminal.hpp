// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>

namespace tw {

/// Whether this process's standard output goes to a terminal. Under Open MPI's `mpirun` every rank has its own pseudo-terminal, so the launcher's
/// standard output decides.
bool output_is_terminal();

/// Waits, at most `patience`, until this process's output has been read. Standard output and standard error count only if they are pipes. MPICH's
/// launcher may drop unread output when it must end its job at once.
/// @return false if a pipe still holds unread output
bool wait_until_output_is_read(std::chrono::milliseconds patience);

}  // namespace tw
