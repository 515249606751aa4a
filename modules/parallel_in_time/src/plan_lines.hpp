// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Lines that describe a plan and must be equal on all ranks.
std::vector<std::string> lines_of(const LevelPlan& plan);

}  // namespace tw::layer_parallel
