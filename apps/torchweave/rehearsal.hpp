// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <iosfwd>

#include "train_setup.hpp"

namespace tw::tool {

/// Reads all data, runs one batch of every phase, and reports on `out` what the run would need. Collective over the ranks that hold one model
/// together. @throws Error if the run would fail
void rehearse(const TrainConfig& config, TrainSetup setup, const Mesh& mesh, std::ostream& out);

}  // namespace tw::tool
