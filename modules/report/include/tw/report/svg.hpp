// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tw::report {

struct Point {
  double x = 0;
  double y = 0;
};

/// An attribute of an element: a length, rounded to a tenth of a pixel, or a plain text.
struct Attribute {
  Attribute(std::string called, double length);
  Attribute(std::string called, std::string text) : name(std::move(called)), value(std::move(text)) {}
  Attribute(std::string called, const char* text) : name(std::move(called)), value(text) {}

  std::string name;
  std::string value;
};
using Attributes = std::vector<Attribute>;

/// The attribute that rotates an element, such as a text, clockwise by `degrees` around a point.
Attribute turned(double degrees, Point around);

/// An SVG drawing. Lengths are in pixels, from the left and the top. Later elements cover earlier ones. Pass plain text: it is escaped here. A
/// browser shows `tip` while the pointer rests on the element.
class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  void line(Point a, Point b, const std::string& colour, const Attributes& more = {});
  /// @param anchor start, middle or end: the part of the text that lies at `at`
  void text(Point at, const std::string& anchor, const std::string& content, const Attributes& more = {});
  void rect(Point corner, double width, double height, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  void circle(Point centre, double radius, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  void polyline(const std::vector<Point>& points, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  /// A filled polygon with these corners.
  void area(const std::vector<Point>& points, const std::string& colour, const std::string& tip = "");
  /// A cubic Bezier curve.
  void curve(Point from, Point control, Point other_control, Point to, const std::string& colour, const Attributes& more = {});
  void begin_group(const Attributes& attributes);
  void end_group() { content_ += "</g>\n"; }
  /// Draws all elements of `other` on top of those drawn so far.
  void add(const Svg& other) { content_ += other.content_; }

  /// The drawing as HTML for part of a page. It has the page's style, and scrolls sideways if it is wider than the page.
  std::string in_page() const;
  /// The content of an SVG file: the drawing on a white background, with texts in a 12-pixel sans-serif font.
  std::string file() const;

 private:
  void open(const std::string& tag, const Attributes& attributes, const Attributes& more);
  void close(const std::string& tag, const std::string& tip);

  double width_;
  double height_;
  std::string content_;
};

}  // namespace tw::report
