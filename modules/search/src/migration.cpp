// SPDX-License-Identifier: Apache-2.0
#include "migration.hpp"

#include <numeric>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/pareto.hpp>

namespace tw::search {

const Individual& Residents::chosen(Pick choice, CounterRng& random) const {
  switch (choice) {
    case Pick::best: return has_fronts() ? drawn(choice, random) : population_.ranked(0);
    case Pick::worst: return has_fronts() ? drawn(choice, random) : population_.worst();
    case Pick::uniform: break;
  }
  return any(random);
}

/// Draws several at random, and returns one that none of the others dominates (best), or that dominates none of them (worst).
const Individual& Residents::drawn(Pick choice, CounterRng& random) const {
  constexpr int draws = 16;
  const Individual* chosen = &any(random);
  for (int i = 1; i < draws; ++i) {
    const Individual& other = any(random);
    if (choice == Pick::best ? dominates(other, *chosen) : dominates(*chosen, other)) chosen = &other;
  }
  return *chosen;
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
