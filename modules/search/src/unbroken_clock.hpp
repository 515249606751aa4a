// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/ledger.hpp>
#include <utility>
#include <vector>

namespace tw::search {

/// Time of a search without the breaks between its runs. A break is a period without a trial in flight that is longer than a second and than a tenth
/// of all other time.
class UnbrokenClock {
 public:
  explicit UnbrokenClock(const Ledger& ledger);

  /// Seconds since the first trial began. @param time seconds since the Unix epoch; during a break, the result is that of its begin
  double at(double time) const;
  /// Seconds from the first begin to the last end, without breaks.
  double total() const noexcept { return total_; }
  size_t breaks() const noexcept { return breaks_.size(); }
  /// Seconds of all breaks.
  double left_out() const noexcept { return left_out_; }

 private:
  double begin_ = 0;
  double total_ = 0;
  double left_out_ = 0;
  std::vector<std::pair<double, double>> breaks_;  // from, to
};

}  // namespace tw::search
