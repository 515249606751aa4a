// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/mpi/communicator.hpp>

#include "progress.hpp"
#include "snapshots.hpp"

namespace tw::train {

/// Where the run to be gone on with stands, if there is one. Nothing is changed yet, so that whatever is refused loses nothing. Collective.
/// @param now where a new run would begin, with the identity of its data and its optimizer
/// @throws Error for a run that would be lost, or would be resumed with other data, another optimizer or another global batch
std::optional<Progress> earlier_run(const Snapshots& snapshots, const Options& options, const Progress& now);

}  // namespace tw::train
