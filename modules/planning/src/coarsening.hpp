// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "operator_order.hpp"

namespace tw::pipeline {

/// Ranges of positions that must not be cut: [first, last] for each entry of `together`.
/// @throws ContractError naming an operator that does not exist
std::vector<std::pair<int, int>> pinned_ranges(const OperatorOrder& order, const std::vector<std::vector<std::string>>& together);

/// First positions of at most `max_blocks` blocks of about equal weight (time and memory), and the end of the last one. Near each ideal cut, a block
/// ends where the fewest bytes cross. Linear in the number of operators. If `max_blocks` allows it, each operator is a block.
/// @param rows approximate rows of a micro-batch
std::vector<int> coarsen(const OperatorOrder& order, const std::vector<std::pair<int, int>>& pinned, int max_blocks, double rows);

}  // namespace tw::pipeline
