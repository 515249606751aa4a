// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/ledger.hpp>
#include <utility>
#include <vector>

namespace tw::search {

/// Time of a search without the breaks between its runs: those in which no trial was in flight, of more than a second and a tenth of all other time.
class UnbrokenClock {
 public:
  explicit UnbrokenClock(const Ledger& ledger);

  /// Seconds since the first trial began. @param time since the Unix epoch; within a break: where it began
  double at(double time) const;
  /// Of all trials.
  double total() const noexcept { return total_; }
  size_t breaks() const noexcept { return breaks_.size(); }
  /// Seconds.
  double left_out() const noexcept { return left_out_; }

 private:
  double begin_ = 0;
  double total_ = 0;
  double left_out_ = 0;
  std::vector<std::pair<double, double>> breaks_;  // from, to
};

}  // namespace tw::search
