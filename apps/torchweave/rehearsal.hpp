// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <iosfwd>

#include "train_setup.hpp"

namespace tw::tool {

/// Reads all data, runs one batch of every part, and says on `out` what the run would need. Collective over the ranks that hold one model together.
/// @throws Error for what would go wrong.
void rehearse(const TrainConfig& config, TrainSetup setup, const Mesh& mesh, std::ostream& out);

}  // namespace tw::tool
