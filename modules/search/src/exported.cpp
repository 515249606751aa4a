// SPDX-License-Identifier: Apache-2.0
#include "exported.hpp"

#include <algorithm>
#include <tw/evolution/pareto.hpp>
#include <vector>

namespace tw::search {
namespace {

int ranks_of_worker(const Ledger& ledger, int worker) {
  const auto index = static_cast<size_t>(worker);
  return index < ledger.worker_ranks.size() ? ledger.worker_ranks[index] : 1;
}

}  // namespace

int most_ranks(const Ledger& ledger, const LedgerEntry& entry) {
  int most = ranks_of_worker(ledger, entry.worker);
  for (const Growth& growth : entry.growths) {
    int ranks = 0;
    for (const int32_t worker : growth.workers) ranks += ranks_of_worker(ledger, worker);
    most = std::max(most, ranks);
  }
  return most;
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
