// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// How kernels see a parameter: as a continuum, by its position in its scale from 0 to 1; or as one of a few values, by its number.
struct KernelAxis {
  std::vector<double> places = {};  ///< of the values, in the scale; empty: a continuum
  std::vector<double> shares = {};  ///< of the scale that each value has; their sum is 1
  bool ordered = true;              ///< whether values that lie near each other are alike

  bool is_continuum() const noexcept { return places.empty(); }
};

/// One for each parameter of a space. Numbers are values up to 64 of them, and a continuum beyond.
class KernelAxes {
 public:
  /// @param space borrowed
  explicit KernelAxes(const Space& space);

  const Space& space() const noexcept { return *space_; }
  size_t size() const noexcept { return axes_.size(); }
  const KernelAxis& operator[](size_t axis) const { return axes_[axis]; }
  /// By axis: a position, or the number of a value; NaN for what does not exist.
  std::vector<double> coordinates_of(const std::vector<double>& values) const;
  double value_of(size_t axis, double coordinate) const;

 private:
  const Space* space_;
  std::vector<KernelAxis> axes_;
};

}  // namespace tw::search
