// SPDX-License-Identifier: Apache-2.0
// Sizes among an operator's arguments. For an operator on parts, some must be divided by the number of ranks: which ones, an experiment shows.
#pragma once
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// The sets of sizes of `node` that are tried: first none, then one, two or all of those that are multiples of `ranks`; at most 16 sets. Sizes are
/// the integers that the operator's schema declares as SymInt, and numbers of groups, unless they depend on the rows.
std::vector<std::vector<SizePlace>> size_variants(const graph::Node& node, int ranks);

}  // namespace tw::splits
