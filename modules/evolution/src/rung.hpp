// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>

namespace tw::search {

/// Values that reached a rung. The best 1/eta are stored separately, so that a comparison with one element shows whether a value is among them.
class Rung {
 public:
  struct Entry {
    double value;  // not NaN
    int64_t trial;
    auto operator<=>(const Entry&) const = default;
  };

  /// @param at_least minimum number of values that count as the best, if there are this many
  Rung(int64_t eta, size_t at_least) : eta_(static_cast<size_t>(eta)), at_least_(at_least) {}

  void add(const Entry& entry) {
    if (!best_.empty() && entry < *best_.rbegin()) {
      best_.insert(entry);
    } else {
      others_.insert(entry);
    }
    const size_t wanted = std::max(at_least_, (best_.size() + others_.size()) / eta_);
    while (best_.size() < wanted) best_.insert(others_.extract(others_.begin()));
    while (best_.size() > wanted) others_.insert(best_.extract(std::prev(best_.end())));
  }
  /// Whether the value is at least as good as one of the best.
  bool has_among_best(double value) const { return !best_.empty() && value <= best_.rbegin()->value; }
  /// Whether the entry is one of the best; of equal values, the smaller trial numbers win.
  bool has_among_best(const Entry& entry) const { return !best_.empty() && entry <= *best_.rbegin(); }

 private:
  size_t eta_;
  size_t at_least_;
  std::set<Entry> best_;
  std::set<Entry> others_;
};

}  // namespace tw::search
