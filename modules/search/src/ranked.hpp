// SPDX-License-Identifier: Apache-2.0
// Trials from the best to the worst: which are shown where not all can be, and in what colour.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace tw::search {

/// Of this many, the best ones, which are a fifth of those that are chosen, and of the others evenly many from all ranks; all, where they are no more
/// than `most`. From the best. @param most 10 at least
std::vector<size_t> chosen_ranks(size_t all, size_t most);

/// From yellow to violet, on a scale that the colour-blind can read, too. @param share of the ranks: 0 for the best, 1 for the worst
std::string colour_of_rank(double share);

/// The share of rank `rank` among `all`.
inline double share_of_rank(size_t rank, size_t all) { return all > 1 ? static_cast<double>(rank) / static_cast<double>(all - 1) : 0; }

}  // namespace tw::search
