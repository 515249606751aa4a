// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tw::tool {

/// Line charts side by side, all with the same logarithmic axes: x in bytes, y in any unit. Pure: values in, SVG out.
class SvgChart {
 public:
  /// @param y_label such as "bus bandwidth, GB/s".
  SvgChart(std::string title, std::string x_label, std::string y_label);

  /// Adds a point to `line` of `panel`; both are made at their first point. Lines of one name have one colour in all panels and one legend.
  /// @param x, y positive; others have no place on a logarithmic axis and are left out.
  void add(const std::string& panel, const std::string& line, double x, double y);

  /// The whole file.
  std::string draw() const;

 private:
  struct Point {
    double x;
    double y;
  };
  struct Line {
    size_t name;  // in names_
    std::vector<Point> points;
  };
  struct Panel {
    std::string title;
    std::vector<Line> lines;
  };
  class Drawing;

  std::string title_;
  std::string x_label_;
  std::string y_label_;
  std::vector<std::string> names_;
  std::vector<Panel> panels_;
};

}  // namespace tw::tool
