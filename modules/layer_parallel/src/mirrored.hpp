// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/layer_parallel/level_plan.hpp>

namespace tw::layer_parallel {

/// The plan of the adjoint: points, steps and ranks in reverse order, each step executed where `plan` has it.
LevelPlan mirrored(const LevelPlan& plan);

}  // namespace tw::layer_parallel
