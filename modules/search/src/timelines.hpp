// SPDX-License-Identifier: Apache-2.0
// Which trials workers evaluated at which times. Pure.
#pragma once
#include <tw/search/ledger.hpp>
#include <vector>

namespace tw::search {

/// A period in which a trial ran without a pause.
struct TimeSpan {
  double from = 0;  ///< seconds since the Unix epoch
  double to = 0;
  const LedgerEntry* entry = nullptr;
  bool is_first = true;  ///< whether it is the first span of its trial
};

/// All spans of a worker, in rows. The spans of a trial are in one row. A trial that begins before the last span of another one ends is in a
/// different row, so that trials do not overlap. Each row is in the order of time.
using Timeline = std::vector<std::vector<TimeSpan>>;

/// The timelines by worker. Each has the minimum number of rows: each trial, in the order in which they began, is put into the first free row.
/// Ref: interval partitioning, Kleinberg & Tardos 2005, section 4.1.
std::vector<Timeline> timelines_of(const Ledger& ledger);

}  // namespace tw::search
