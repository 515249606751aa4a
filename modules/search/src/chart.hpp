// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/report/svg.hpp>
#include <vector>

#include "ticks.hpp"

namespace tw::search {

/// A drawing with axes on its lower and left sides. Places are numbers from 0 to 1, measured from the lower left corner.
class Chart {
 public:
  /// Size of the area between the axes, in pixels.
  struct Size {
    double width = 440;
    double height = 240;
  };
  struct Side {
    std::vector<Tick> ticks = {};
    std::string label = {};
  };
  Chart(Size size, const Side& below, const Side& left);

  double x_of(double place) const;
  double y_of(double place) const;
  report::Svg& svg() noexcept { return svg_; }

 private:
  Size size_;
  report::Svg svg_;
};

}  // namespace tw::search
