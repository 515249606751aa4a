// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "train_setup.hpp"

#include <iosfwd>

namespace tw::tool {

/// Reports on a run whose layers or time steps are in parallel: the last passes, the detector's checks, and the validation figures of inference with
/// iterations next to those of serial inference. Also draws layers.svg, in the run's folder. Collective over the mesh. @param out used on rank 0
void report_iterations(std::ostream& out, const TrainConfig& config, TrainSetup& setup, train::Trainer& trainer, const Mesh& mesh);

}  // namespace tw::tool
