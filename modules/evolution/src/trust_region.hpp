// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tw::search {

/// The size of the region around the best position in which a search looks. It doubles after three improvements in a row, and halves after `patience`
/// trials without one. Ref: Eriksson et al. 2019, TuRBO.
class TrustRegion {
 public:
  static constexpr double whole = 2;  // covers the whole cube around any position
  static constexpr size_t enough = 3;

  explicit TrustRegion(size_t dimensions) : patience_(std::max<size_t>(4, dimensions)) {}

  double side() const noexcept { return side_; }
  /// Number of changes of the side.
  int32_t version() const noexcept { return version_; }

  /// Counts a trial of this version. @param in_flight number of concurrent trials, which all result from one decision
  void count(bool improves, size_t in_flight) noexcept {
    successes_ = improves ? successes_ + 1 : 0;
    failures_ = improves ? 0 : failures_ + 1;
    if (successes_ >= enough && side_ < whole) change(2 * side_);
    if (failures_ >= std::max(patience_, in_flight)) change(side_ / 2);
  }

 private:
  void change(double side) noexcept {
    side_ = side;
    successes_ = failures_ = 0;
    ++version_;
  }

  double side_ = whole;
  size_t patience_;
  size_t successes_ = 0;
  size_t failures_ = 0;
  int32_t version_ = 0;
};

}  // namespace tw::search
