// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/train/memory.hpp>

namespace tw::tool {

/// A chart of the memory that a rank held in a step, stacked by use. Pure. @param step must have at least one moment
std::string memory_svg(const train::StepMemory& step);

}  // namespace tw::tool
