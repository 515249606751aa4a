// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <algorithm>
#include <numeric>

namespace tw::search {
namespace {

/// The begin of each part with these sizes, and the end of the last one.
std::vector<int> bounds_of(const std::vector<int>& sizes) {
  std::vector<int> bounds(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), bounds.begin() + 1);
  return bounds;
}

std::vector<int> equal_workers(int ranks, int ranks_per_worker) {
  return std::vector<int>(static_cast<size_t>(ranks / ranks_per_worker), ranks_per_worker);
}

std::vector<int> even_islands(int workers, int islands) {
  std::vector<int> sizes(static_cast<size_t>(islands), workers / islands);
  std::for_each_n(sizes.begin(), workers % islands, [](int& each) { ++each; });
  return sizes;
}

/// The part that contains `place`.
int part_at(const std::vector<int>& bounds, int place) { return static_cast<int>(std::ranges::upper_bound(bounds, place) - bounds.begin()) - 1; }

}  // namespace

Layout::Layout(int ranks, const SearchOptions& options)
    : first_rank_(bounds_of(options.worker_ranks.empty() ? equal_workers(ranks, options.ranks_per_worker) : options.worker_ranks)),
      first_worker_(bounds_of(options.island_workers.empty() ? even_islands(workers(), options.islands) : options.island_workers)) {}

int Layout::worker_of_rank(int rank) const { return part_at(first_rank_, rank); }
int Layout::island_of(int worker) const { return part_at(first_worker_, worker); }

}  // namespace tw::search
