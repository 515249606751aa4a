// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>

namespace tw {

/// Whether a person sees this process's standard output on a terminal. Under Open MPI's `mpirun` every rank writes to a
/// pseudo-terminal of its own, so what counts there is where the launcher's standard output goes.
bool output_is_terminal();

/// Returns when the output that this process wrote to standard output and standard error has been read, where these are pipes; after `patience` at
/// most. A launcher that must end its job at once may drop unread output: MPICH's does.
/// @return whether all has been read
bool wait_until_output_is_read(std::chrono::milliseconds patience);

}  // namespace tw
