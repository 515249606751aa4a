// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "train_setup.hpp"

#include <iosfwd>

namespace tw::tool {

/// Of a run whose layers or time steps are in parallel: how the last passes went, what the detector found, and how inference with the iterations
/// compares with serial inference; and a picture of it, layers.svg in the run's folder. Collective over the mesh. @param out of rank 0
void report_iterations(std::ostream& out, const TrainConfig& config, TrainSetup& setup, train::Trainer& trainer, const Mesh& mesh);

}  // namespace tw::tool
