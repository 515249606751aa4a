// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

namespace tw::search {

/// Numbers along a line: linear or logarithmic.
class Axis {
 public:
  /// @param logarithmic ignored unless `low` is positive. If the limits are equal, the axis is extended beyond them
  Axis(double low, double high, bool logarithmic);
  /// An axis for these losses, at least one: from the smallest to a value that 19 of 20 do not exceed; logarithmic if their ratio is 100 or more.
  static Axis of_losses(std::vector<double> losses);

  /// The position of `value`: 0 at the low end, 1 at the high end. Values beyond an end are placed there.
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
