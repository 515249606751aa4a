// SPDX-License-Identifier: Apache-2.0
// When workers were evaluating what. Pure.
#pragma once
#include <tw/search/ledger.hpp>
#include <vector>

namespace tw::search {

/// A time in which a trial ran without a pause.
struct TimeSpan {
  double from = 0;  ///< seconds since the Unix epoch
  double to = 0;
  const LedgerEntry* entry = nullptr;
  bool is_first = true;  ///< of its trial
};

/// All spans of a worker. Those of one trial are in one row; where another trial begins before it ran for the last time, that one is in another
/// row, so that no two trials overlap. Of each row in the order of time.
using Timeline = std::vector<std::vector<TimeSpan>>;

/// By worker. Each has as few rows as there can be: each trial, in the order of their beginnings, gets the first row that is free.
/// Ref: interval partitioning, Kleinberg & Tardos 2005, section 4.1.
std::vector<Timeline> timelines_of(const Ledger& ledger);

}  // namespace tw::search
