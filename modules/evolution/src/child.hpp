// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/evolution/breeding.hpp>
#include <vector>

namespace tw::search {

/// The child. If there is none yet, it starts as a copy of the first parent or, without parents, as a uniform sample.
std::vector<double>& child_of(Offspring& offspring);

}  // namespace tw::search
