// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <limits>
#include <span>
#include <vector>

namespace tw::search {

/// The order of individuals: those that are allowed by their loss, before those that violate constraints by the amount. Failed ones rank last: both
/// values are infinite. Ref: Deb 2000.
struct Standing {
  double violation = std::numeric_limits<double>::infinity();
  double loss = std::numeric_limits<double>::infinity();

  auto operator<=>(const Standing&) const = default;
  bool is_allowed() const noexcept { return violation == 0; }
  /// Of the two, what it stands where it does by.
  double decisive() const noexcept { return violation > 0 ? violation : loss; }
};

/// By how much `to` is better than `from`: in violation if they differ in that, otherwise in loss. Not finite if one of them failed.
inline double gain(const Standing& from, const Standing& to) noexcept {
  return from.violation != to.violation ? from.violation - to.violation : from.loss - to.loss;
}

/// One number for each, in their order, for models of the loss, in which a number means the same for all: the loss of what is allowed. Violations
/// begin at the largest of these losses, and the largest of them lies above it by as much as it lies above the least. Where nothing is allowed, or
/// all of it is equally good, they are as they are. Infinite for what failed.
std::vector<double> merits(std::span<const Standing> standings);

}  // namespace tw::search
