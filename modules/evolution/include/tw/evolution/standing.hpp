// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <limits>
#include <span>
#include <vector>

namespace tw::search {

/// A sort key for individuals. Allowed individuals are ordered by loss. Individuals that violate constraints follow, ordered by violation. Failed
/// individuals rank last: both values are infinite. Ref: Deb 2000.
struct Standing {
  double violation = std::numeric_limits<double>::infinity();
  double loss = std::numeric_limits<double>::infinity();

  auto operator<=>(const Standing&) const = default;
  bool is_allowed() const noexcept { return violation == 0; }
  /// The value that decides the rank: the violation if there is one, otherwise the loss.
  double rank_value() const noexcept { return violation > 0 ? violation : loss; }
};

/// How much better `to` is than `from`: the difference in violation if there is one, otherwise in loss. Not finite if either failed.
inline double gain(const Standing& from, const Standing& to) noexcept {
  return from.violation != to.violation ? from.violation - to.violation : from.loss - to.loss;
}

/// One number per individual in order, for models that need a single scale. An allowed individual gets its loss. Violations are scaled to begin at
/// the largest such loss and to span the same range as the losses. They stay unscaled if no individual is allowed, or if all allowed losses are
/// equal. Failed individuals get infinity.
std::vector<double> merits(std::span<const Standing> standings);

}  // namespace tw::search
