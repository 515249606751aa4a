// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>

namespace tw {

/// Whether a person sees this process's standard output on a terminal. Under Open MPI's `mpirun` every rank writes to a
/// pseudo-terminal of its own, so what counts there is where the launcher's standard output goes.
bool output_is_terminal();

/// Until somebody has read what this process wrote to standard output and standard error, where these are pipes; for `patience` at most. A launcher
/// that is told to end its job at once may drop what it has not read: MPICH's does.
/// @return whether all has been read
bool wait_until_output_is_read(std::chrono::milliseconds patience);

}  // namespace tw
