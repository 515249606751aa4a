// SPDX-License-Identifier: Apache-2.0
#include "unbroken_clock.hpp"

#include <algorithm>

namespace tw::search {

UnbrokenClock::UnbrokenClock(const Ledger& ledger) {
  std::vector<std::pair<double, double>> spans;
  for (const LedgerEntry& entry : ledger.trials) spans.emplace_back(entry.begin, entry.last_activity);
  if (spans.empty()) return;
  std::ranges::sort(spans);
  begin_ = spans.front().first;
  std::vector<std::pair<double, double>> gaps;
  double end = begin_;
  double idle = 0;
  for (const auto& [from, to] : spans) {
    if (from > end) {
      gaps.emplace_back(end, from);
      idle += from - end;
    }
    end = std::max(end, to);
  }
  const double least = std::max(1.0, 0.1 * (end - begin_ - idle));
  std::ranges::copy_if(gaps, std::back_inserter(breaks_), [&](const auto& gap) { return gap.second - gap.first > least; });
  for (const auto& [from, to] : breaks_) left_out_ += to - from;
  total_ = end - begin_ - left_out_;
}

double UnbrokenClock::at(double time) const {
  double left_out = 0;
  for (const auto& [from, to] : breaks_) {
    if (time <= from) break;
    left_out += std::min(time, to) - from;
  }
  return time - begin_ - left_out;
}

}  // namespace tw::search
