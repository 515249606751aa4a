// SPDX-License-Identifier: Apache-2.0
#include "exported.hpp"

#include <algorithm>
#include <tw/evolution/pareto.hpp>
#include <vector>

namespace tw::search {

int ranks_of(const Ledger& ledger, const LedgerEntry& entry) {
  const auto worker = static_cast<size_t>(entry.worker);
  return worker < ledger.worker_ranks.size() ? ledger.worker_ranks[worker] : 1;
}

std::set<int64_t> trials_on_front(const Ledger& ledger) {
  std::set<int64_t> trials;
  if (ledger.objectives.size() < 2) return trials;
  std::vector<Individual> individuals;
  for (const LedgerEntry& each : ledger.trials) individuals.push_back(each.individual);
  for (const Individual* each : front_of(individuals)) trials.insert(each->trial);
  return trials;
}

size_t constraints_of(const Ledger& ledger) {
  size_t most = 0;
  for (const LedgerEntry& each : ledger.trials) most = std::max(most, each.constraints.size());
  return most;
}

}  // namespace tw::search
