// SPDX-License-Identifier: Apache-2.0
// How the ranks along an axis hold a tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <string>

namespace tw::splits {

struct Placement {
  enum class Kind {
    whole,    ///< every rank has all of it, with equal values
    split,    ///< every rank has an equal part of one dimension
    partial,  ///< every rank has a summand
  };
  Kind kind = Kind::whole;
  int dimension = 0;  ///< split: the dimension
  /// split: the dimension consists of this many groups of equal size, one after the other, and a rank has its part of each. For example 3 for
  /// queries, keys and values that one matrix product computes, if the ranks divide the heads.
  int64_t groups = 1;

  static Placement split(int dimension, int64_t groups = 1) { return {Kind::split, dimension, groups}; }
  static Placement partial() { return {.kind = Kind::partial}; }

  bool is_whole() const noexcept { return kind == Kind::whole; }
  bool is_split() const noexcept { return kind == Kind::split; }
  bool is_partial() const noexcept { return kind == Kind::partial; }
  auto operator<=>(const Placement&) const = default;
};

/// "whole", "partial", "split(1)", or "split(1) in 3 groups".
std::string to_text(const Placement& placement);

/// Whether a dimension of `size` elements can be divided into equal parts: each group must be a multiple of the number of ranks.
inline bool can_divide(int64_t size, int64_t groups, int ranks) noexcept { return size > 0 && size % (groups * ranks) == 0; }

/// The part of rank `rank` out of `ranks`: a view where possible. @param placement a split that can_divide() the dimension
at::Tensor part_of(const at::Tensor& whole, const Placement& placement, int rank, int ranks);

}  // namespace tw::splits
