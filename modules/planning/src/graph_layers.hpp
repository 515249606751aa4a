// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/profile.hpp>
#include <vector>

namespace tw::pipeline {

/// Operators in layers for drawing. Each operator is below all its inputs. An operator that does not depend on the batch is directly above the first
/// operator that uses it. @return the operators of each layer, from left to right; no layer is empty
std::vector<std::vector<int>> layers_of(const Profile& profile);

}  // namespace tw::pipeline
