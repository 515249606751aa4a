// SPDX-License-Identifier: Apache-2.0
// Sizes among an operator's arguments. For an operator on parts, some must be divided by the number of ranks: which ones, an experiment shows.
#pragma once
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::splits {

/// The arguments of `node`, first as they are, then with one, two or all of its sizes divided by `ranks`, as far as they are multiples; at most 16
/// variants. Sizes are the integers that the operator's schema declares as SymInt, and numbers of groups. Sizes that depend on the rows stay.
std::vector<std::vector<graph::Argument>> size_variants(const graph::Node& node, int ranks);

}  // namespace tw::splits
