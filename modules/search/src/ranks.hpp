// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

namespace tw::search {

/// The rank of each number, from 0 for the smallest. Equal numbers share the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& numbers);

}  // namespace tw::search
