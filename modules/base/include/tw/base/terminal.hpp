// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {

/// Whether a person sees this process's standard output on a terminal. Under Open MPI's `mpirun` every rank writes to a
/// pseudo-terminal of its own, so what counts there is where the launcher's standard output goes.
bool output_is_terminal();

}  // namespace tw
