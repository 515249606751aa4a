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

void add(const std::vector<Stretch>& stretches, Lane& lane) {
  const auto is_free = [&](const std::vector<Stretch>& row) { return row.back().to <= stretches.front().from; };
  auto row = std::ranges::find_if(lane, is_free);
  if (row == lane.end()) row = lane.insert(lane.end(), std::vector<Stretch>());
  row->insert(row->end(), stretches.begin(), stretches.end());
}

}  // namespace

std::vector<Lane> lanes_of(const Ledger& ledger) {
  std::vector<const LedgerEntry*> entries;
  for (const LedgerEntry& entry : ledger.trials) entries.push_back(&entry);
  std::ranges::stable_sort(entries, {}, &LedgerEntry::begin);
  std::vector<Lane> lanes(static_cast<size_t>(ledger.workers));
  for (const LedgerEntry* entry : entries) add(stretches_of(*entry), lanes[static_cast<size_t>(entry->worker)]);
  return lanes;
}

}  // namespace tw::search
