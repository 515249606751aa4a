// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "operator_order.hpp"

namespace tw::pipeline {

/// Positions between which nothing may be cut: [first, last] for each entry of `together`.
/// @throws ContractError naming an operator that there is not
std::vector<std::pair<int, int>> pinned_stretches(const OperatorOrder& order, const std::vector<std::vector<std::string>>& together);

/// Begins of at most `max_blocks` blocks of about equal weight (time, and memory), and the end of the last one. Around each place where equal weights
/// would have it, a block ends where the fewest bytes cross. Linear in the number of operators. Blocks are all operators where these suffice.
/// @param rows those of a micro-batch, roughly
std::vector<int> coarsen(const OperatorOrder& order, const std::vector<std::pair<int, int>>& pinned, int max_blocks, double rows);

}  // namespace tw::pipeline
