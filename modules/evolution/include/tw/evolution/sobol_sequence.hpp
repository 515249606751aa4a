// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tw::search {

/// Points that fill the unit cube evenly. Of the first 2^m points, each interval [k * 2^-m, (k + 1) * 2^-m) of each dimension contains exactly one.
/// In two dimensions they form a (t, m, 2)-net: equal boxes that are not too small contain equal numbers of points. Ref: Sobol' 1967; Joe & Kuo 2008,
/// "Constructing Sobol sequences with better two-dimensional projections" (direction numbers new-joe-kuo-6). Points are in the order of Antonov &
/// Saleev 1979.
class SobolSequence {
 public:
  static constexpr size_t max_dimensions = 64;

  /// @param dimensions 1 to 64. @throws ContractError for more, or none
  explicit SobolSequence(size_t dimensions);

  size_t dimensions() const noexcept { return directions_.size(); }
  /// Coordinate `dimension` of point `index`, in units of 2^-32; point 0 is the origin. Cost: an exclusive or for each 1 in the Gray code of `index`.
  uint32_t at(size_t dimension, uint32_t index) const noexcept;

 private:
  std::vector<std::array<uint32_t, 32>> directions_;  // by dimension and bit of the Gray code
};

/// Scrambles `x`: a hash of `seed` and of the higher bits decides whether each bit is flipped. A scrambled sequence still fills the cube evenly, and
/// over all seeds each point is uniformly distributed. Ref: Owen 1995; Laine & Karras 2011 and Burley 2020, "Practical hash-based Owen scrambling".
uint32_t owen_scrambled(uint32_t x, uint32_t seed) noexcept;

}  // namespace tw::search
