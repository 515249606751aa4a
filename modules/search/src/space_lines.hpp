// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// A description of a space that ranks can compare: names, and a line for each parameter. Constraints are compared by name only, since they are
/// functions.
std::vector<std::string> lines_of(const Space& space);

}  // namespace tw::search
