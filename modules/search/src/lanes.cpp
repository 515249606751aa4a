// SPDX-License-Identifier: Apache-2.0
#include "lanes.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

std::vector<Stretch> stretches_of(const LedgerEntry& entry) {
  std::vector<Stretch> stretches;
  double from = entry.begin;
  for (const Pause& pause : entry.pauses) {
    stretches.push_back({from, pause.from, &entry, stretches.empty()});
    if (std::isnan(pause.to)) return stretches;
    from = pause.to;
  }
  stretches.push_back({from, entry.last_sign, &entry, stretches.empty()});
  return stretches;
}

/// What is to be in one row of a worker.
struct Visit {
  int worker;
  std::vector<Stretch> stretches;
};

void add_helpers(const LedgerEntry& entry, std::vector<Visit>& visits) {
  for (const Growth& growth : entry.growths) {
    const double to = std::isnan(growth.to) ? entry.last_sign : growth.to;
    for (const int32_t worker : growth.workers) {
      if (worker != entry.worker) visits.push_back({worker, {{growth.from, to, &entry, /*is_first=*/false}}});
    }
  }
}

void add(const std::vector<Stretch>& stretches, Lane& lane) {
  const auto is_free = [&](const std::vector<Stretch>& row) { return row.back().to <= stretches.front().from; };
  auto row = std::ranges::find_if(lane, is_free);
  if (row == lane.end()) row = lane.insert(lane.end(), std::vector<Stretch>());
  row->insert(row->end(), stretches.begin(), stretches.end());
}

}  // namespace

std::vector<Lane> lanes_of(const Ledger& ledger) {
  std::vector<Visit> visits;
  for (const LedgerEntry& entry : ledger.trials) {
    visits.push_back({entry.worker, stretches_of(entry)});
    add_helpers(entry, visits);
  }
  std::ranges::stable_sort(visits, {}, [](const Visit& visit) { return visit.stretches.front().from; });
  std::vector<Lane> lanes(static_cast<size_t>(ledger.workers));
  for (const Visit& visit : visits) add(visit.stretches, lanes[static_cast<size_t>(visit.worker)]);
  return lanes;
}

}  // namespace tw::search
