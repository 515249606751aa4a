// SPDX-License-Identifier: Apache-2.0
// Trials from the best to the worst: which ones are shown if there are too many, and in which colour.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace tw::search {

/// The ranks to show, best first: all if there are at most `most`. Otherwise a fifth of the chosen ones are the best, and the others are spread
/// evenly over the remaining ranks. @param all number of ranks. @param most maximum number of chosen ranks, at least 10
std::vector<size_t> chosen_ranks(size_t all, size_t most);

/// A colour from yellow to violet, on a scale that colour-blind people can read, too. @param share rank from 0 for the best to 1 for the worst
std::string colour_of_rank(double share);

/// Rank `rank` of `all` as a number from 0 to 1.
inline double share_of_rank(size_t rank, size_t all) { return all > 1 ? static_cast<double>(rank) / static_cast<double>(all - 1) : 0; }

}  // namespace tw::search
