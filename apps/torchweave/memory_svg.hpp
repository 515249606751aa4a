// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/train/memory.hpp>

namespace tw::tool {

/// A picture of what a rank held in a step, by use, one above the other. Pure. @param step at least one moment
std::string memory_svg(const train::StepMemory& step);

}  // namespace tw::tool
