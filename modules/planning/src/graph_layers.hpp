// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/profile.hpp>
#include <vector>

namespace tw::pipeline {

/// Operators in layers, each below all that it takes, and right above the first that takes it where it does not see the batch. By layer, from left to
/// right; none is empty.
std::vector<std::vector<int>> layers_of(const Profile& profile);

}  // namespace tw::pipeline
