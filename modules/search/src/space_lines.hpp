// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// All of a space that ranks can compare: names, and a line for each parameter. Of constraints the names: what they compute cannot be told.
std::vector<std::string> lines_of(const Space& space);

}  // namespace tw::search
