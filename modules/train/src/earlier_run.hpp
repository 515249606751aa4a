// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/mpi/communicator.hpp>

#include "progress.hpp"
#include "snapshots.hpp"

namespace tw::train {

/// Progress of the run to be resumed, if there is one. Changes nothing, so a refusal loses nothing. Collective.
/// @param now start of a new run, with the identity of its data and its optimizer
/// @throws Error if a run would be lost, or resumed with other data, another optimizer or another global batch
std::optional<Progress> earlier_run(const Snapshots& snapshots, const Options& options, const Progress& now);

}  // namespace tw::train
