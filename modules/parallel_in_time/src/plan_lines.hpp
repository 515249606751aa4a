// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What ranks must agree on of a plan.
std::vector<std::string> lines_of(const LevelPlan& plan);

}  // namespace tw::layer_parallel
