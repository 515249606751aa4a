// SPDX-License-Identifier: Apache-2.0
#include "timelines.hpp"

#include <algorithm>
#include <cmath>

namespace tw::search {
namespace {

std::vector<TimeSpan> spans_of(const LedgerEntry& entry) {
  std::vector<TimeSpan> spans;
  double from = entry.begin;
  for (const Pause& pause : entry.pauses) {
    spans.push_back({from, pause.from, &entry, spans.empty()});
    if (std::isnan(pause.to)) return spans;
    from = pause.to;
  }
  spans.push_back({from, entry.last_activity, &entry, spans.empty()});
  return spans;
}

void add(const std::vector<TimeSpan>& spans, Timeline& timeline) {
  const auto is_free = [&](const std::vector<TimeSpan>& row) { return row.back().to <= spans.front().from; };
  auto row = std::ranges::find_if(timeline, is_free);
  if (row == timeline.end()) row = timeline.insert(timeline.end(), std::vector<TimeSpan>());
  row->insert(row->end(), spans.begin(), spans.end());
}

}  // namespace

std::vector<Timeline> timelines_of(const Ledger& ledger) {
  std::vector<const LedgerEntry*> entries;
  for (const LedgerEntry& entry : ledger.trials) entries.push_back(&entry);
  std::ranges::stable_sort(entries, {}, &LedgerEntry::begin);
  std::vector<Timeline> timelines(static_cast<size_t>(ledger.workers));
  for (const LedgerEntry* entry : entries) add(spans_of(*entry), timelines[static_cast<size_t>(entry->worker)]);
  return timelines;
}

}  // namespace tw::search
