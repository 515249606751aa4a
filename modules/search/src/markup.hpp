// SPDX-License-Identifier: Apache-2.0
// Text as HTML, and drawings inside it.
#pragma once
#include <string>
#include <vector>

#include "number_text.hpp"

namespace tw::search {

/// For content and for attributes in double quotes.
std::string escaped(const std::string& text);

/// "<th>...</th>" and so on, of what is HTML already.
std::string element(const std::string& tag, const std::string& content);

/// A row of a table, of plain texts. @param tag td or th
std::string row(const std::vector<std::string>& cells, const std::string& tag = "td");

/// Rows of plain texts below a head. Wide ones scroll.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

struct Point {
  double x = 0;
  double y = 0;
};

/// A drawing being made. Lengths are in pixels, from the left and the top; texts are plain.
class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  void line(Point a, Point b, const std::string& colour);
  /// @param anchor start, middle, end. @param turned degrees, clockwise around `at`
  void text(Point at, const std::string& anchor, const std::string& words, double turned = 0);
  void rect(Point corner, double width, double height, const std::string& colour, const std::string& tip = "");
  void circle(Point centre, double radius, const std::string& colour, const std::string& tip = "");
  /// @param kind a class of the page's style
  void path(const std::vector<Point>& points, const std::string& colour, const std::string& kind, const std::string& tip = "");

  /// The element; wide ones scroll.
  std::string str() const;

 private:
  void close(const std::string& tag, const std::string& tip);

  double width_;
  double height_;
  std::string content_;
};

}  // namespace tw::search
