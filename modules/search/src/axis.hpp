// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

namespace tw::search {

/// Numbers along a line: linear or logarithmic.
class Axis {
 public:
  /// @param logarithmic only where `low` is above 0. Where the limits are equal, it reaches beyond them
  Axis(double low, double high, bool logarithmic);
  /// For these losses, one at least: from the smallest to where 19 of 20 lie below; logarithmic where that is over a factor of 100 or more.
  static Axis of_losses(std::vector<double> losses);

  /// 0 at the low end, 1 at the high end; numbers beyond are at the ends.
  double place(double value) const;
  bool contains(double value) const { return value >= low_ && value <= high_; }
  /// Round numbers, about six.
  std::vector<double> ticks() const;

 private:
  double low_;
  double high_;
  bool logarithmic_;
};

}  // namespace tw::search
