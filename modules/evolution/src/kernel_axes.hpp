// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// A parameter as kernels see it: a continuum, with positions from 0 to 1 in its scale, or one of a few values, by index.
struct KernelAxis {
  std::vector<double> places = {};  ///< positions of the values in the scale; empty: a continuum
  std::vector<double> shares = {};  ///< share of the scale for each value; they add up to 1
  bool ordered = true;              ///< whether adjacent values are similar

  bool is_continuum() const noexcept { return places.empty(); }
};

/// One axis per parameter of a space. Numeric parameters with up to 64 values have values; others are continua.
class KernelAxes {
 public:
  /// @param space copied
  explicit KernelAxes(const Space& space);

  const Space& space() const noexcept { return space_; }
  size_t size() const noexcept { return axes_.size(); }
  const KernelAxis& operator[](size_t axis) const { return axes_[axis]; }
  /// By axis: a position, or the index of a value; NaN for a parameter that does not exist.
  std::vector<double> coordinates_of(const std::vector<double>& values) const;
  double value_of(size_t axis, double coordinate) const;

 private:
  Space space_;
  std::vector<KernelAxis> axes_;
};

}  // namespace tw::search
