// SPDX-License-Identifier: Apache-2.0
#include "migration.hpp"

#include <numeric>
#include <tw/evolution/draws.hpp>

namespace tw::search {

const Individual& Wards::chosen(Pick choice, CounterRng& random) const {
  switch (choice) {
    case Pick::best: return population_.ranked(0);
    case Pick::worst: return population_.worst();
    case Pick::uniform: break;
  }
  return population_.active_at(index_below(random, population_.active()));
}

std::optional<int> destination(const MigrationOptions& options, int island, int islands, CounterRng& random) {
  if (islands == 1 || !bernoulli(random, options.probability)) return std::nullopt;
  std::vector<double> weights(static_cast<size_t>(islands), 1);
  if (const auto row = static_cast<size_t>(island); row < options.topology.size() && !options.topology[row].empty()) weights = options.topology[row];
  weights[static_cast<size_t>(island)] = 0;
  double at = uniform(random) * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::optional<int> chosen;
  for (int to = 0; to < islands; ++to) {
    const double weight = weights[static_cast<size_t>(to)];
    if (weight == 0) continue;
    chosen = to;
    if (at < weight) break;
    at -= weight;
  }
  return chosen;
}

}  // namespace tw::search
