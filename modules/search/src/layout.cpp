// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/contract.hpp>

namespace tw::search {

Layout::Layout(int ranks, const SearchOptions& options) : ranks_per_worker_(options.ranks_per_worker), first_{0} {
  const int workers = ranks / options.ranks_per_worker;
  for (const int each : options.island_workers) first_.push_back(first_.back() + each);
  if (!options.island_workers.empty()) return;
  for (int island = 1; island <= options.islands; ++island)
    first_.push_back(workers / options.islands * island + std::min(island, workers % options.islands));
}

int Layout::island_of(int worker) const { return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), worker) - first_.begin()) - 1; }

}  // namespace tw::search
