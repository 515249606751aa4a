// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/contract.hpp>

namespace tw::search {

void SearchOptions::validate(int ranks) const {
  TW_EXPECTS(ranks_per_worker >= 1, "ranks_per_worker must be at least 1, got ", ranks_per_worker);
  TW_EXPECTS(ranks % ranks_per_worker == 0, "ranks_per_worker is ", ranks_per_worker, ", which does not divide the ", ranks, " ranks");
  const int workers = ranks / ranks_per_worker;
  TW_EXPECTS(islands >= 1 && islands <= workers, "islands must be 1 to ", workers, ", the number of workers, got ", islands);
  const int count = island_workers.empty() ? islands : static_cast<int>(island_workers.size());
  for (const int each : island_workers) TW_EXPECTS(each >= 1, "island_workers: an island has at least 1 worker, got ", each);
  TW_EXPECTS(island_workers.empty() || std::accumulate(island_workers.begin(), island_workers.end(), 0) == workers, "island_workers must add up to ",
             workers, ", the number of workers");
  TW_EXPECTS(evaluations >= 0, "evaluations must be at least 0, got ", evaluations);
  TW_EXPECTS(seconds > 0, "seconds must be positive, got ", seconds);
  TW_EXPECTS(evaluations > 0 || std::isfinite(seconds), "evaluations or seconds must be given, or the search would never end");
  TW_EXPECTS(!std::isnan(target), "target must be a number");
  TW_EXPECTS(attempts >= 1, "attempts must be at least 1, got ", attempts);
  TW_EXPECTS((stopping ? 1 : 0) + (promotion ? 1 : 0) + (population_training ? 1 : 0) <= 1,
             "stopping, promotion and population_training decide on the same: give one of them");
  if (promotion) promotion->validate();
  TW_EXPECTS(!population_training || evaluations > 0, "evaluations must be given with population_training: it is the number of members");
  TW_EXPECTS(migration.probability >= 0 && migration.probability <= 1, "migration.probability must be 0 to 1, got ", migration.probability);
  TW_EXPECTS(migration.topology.empty() || migration.topology.size() == static_cast<size_t>(count), "migration.topology needs ", count,
             " rows, one for each island, got ", migration.topology.size());
  for (size_t i = 0; i < migration.topology.size(); ++i) {
    const std::vector<double>& row = migration.topology[i];
    TW_EXPECTS(row.size() == static_cast<size_t>(count), "migration.topology: row ", i, " needs ", count, " numbers, got ", row.size());
    for (const double each : row) TW_EXPECTS(std::isfinite(each) && each >= 0, "migration.topology: row ", i, " has ", each);
    TW_EXPECTS(row[i] == 0, "migration.topology: row ", i, " sends to its own island");
  }
}

Layout::Layout(int ranks, const SearchOptions& options) : ranks_per_worker_(options.ranks_per_worker), first_{0} {
  const int workers = ranks / options.ranks_per_worker;
  for (const int each : options.island_workers) first_.push_back(first_.back() + each);
  if (!options.island_workers.empty()) return;
  for (int island = 1; island <= options.islands; ++island)
    first_.push_back(workers / options.islands * island + std::min(island, workers % options.islands));
}

int Layout::island_of(int worker) const { return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), worker) - first_.begin()) - 1; }

}  // namespace tw::search
