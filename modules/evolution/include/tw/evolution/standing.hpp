// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <limits>
#include <span>
#include <vector>

namespace tw::search {

/// A sort key for individuals. Feasible ones ("allowed", violation 0) are ordered by loss. Individuals with a known violation follow, ordered by
/// violation. Failed and all other individuals rank last: both values are infinite. Ref: Deb 2000.
struct Standing {
  double violation = std::numeric_limits<double>::infinity();
  double loss = std::numeric_limits<double>::infinity();

  auto operator<=>(const Standing&) const = default;
  bool is_allowed() const noexcept { return violation == 0; }
  /// The value that decides the rank: the violation if it is positive, otherwise the loss.
  double rank_value() const noexcept { return violation > 0 ? violation : loss; }
};

/// How much better `to` is than `from`: the difference in violation, or, if the violations are equal, the difference in loss. Not finite if either
/// individual failed.
inline double gain(const Standing& from, const Standing& to) noexcept {
  return from.violation != to.violation ? from.violation - to.violation : from.loss - to.loss;
}

/// One number per individual in order, for models that need a single scale. A feasible individual gets its loss. Violations are scaled to begin at
/// the largest loss of a feasible individual and to span the same range as these losses. They are not stretched if no individual is feasible, or if
/// all these losses are equal. Failed individuals get infinity.
std::vector<double> merits(std::span<const Standing> standings);

}  // namespace tw::search
