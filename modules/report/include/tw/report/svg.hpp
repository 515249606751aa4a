// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace tw::report {

struct Point {
  double x = 0;
  double y = 0;
};

/// Of an element: a length, to a tenth of a pixel, or a plain text.
struct Attribute {
  Attribute(std::string called, double length);
  Attribute(std::string called, std::string text) : name(std::move(called)), value(std::move(text)) {}
  Attribute(std::string called, const char* text) : name(std::move(called)), value(text) {}

  std::string name;
  std::string value;
};
using Attributes = std::vector<Attribute>;

/// Rotates a text by this many degrees, clockwise.
Attribute turned(double degrees, Point around);

/// A drawing being made. Lengths are in pixels, from the left and the top; what is drawn later lies above. Texts are plain. A tip appears when the
/// pointer rests on what has it.
class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}

  void line(Point a, Point b, const std::string& colour, const Attributes& more = {});
  /// @param anchor start, middle, end: which part of the text lies at `at`
  void text(Point at, const std::string& anchor, const std::string& words, const Attributes& more = {});
  void rect(Point corner, double width, double height, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  void circle(Point centre, double radius, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  void polyline(const std::vector<Point>& points, const std::string& colour, const std::string& tip = "", const Attributes& more = {});
  /// What lies within these points.
  void area(const std::vector<Point>& points, const std::string& colour, const std::string& tip = "");
  /// A cubic Bezier curve.
  void curve(Point from, Point control, Point other_control, Point to, const std::string& colour, const Attributes& more = {});
  void begin_group(const Attributes& attributes);
  void end_group() { content_ += "</g>\n"; }
  /// All of `other`, above what there is.
  void add(const Svg& other) { content_ += other.content_; }

  /// As a part of an HTML page, whose style it follows; wide ones scroll.
  std::string in_page() const;
  /// As a file: on white, in a sans-serif font of 12 pixels.
  std::string file() const;

 private:
  void open(const std::string& tag, const Attributes& attributes, const Attributes& more);
  void close(const std::string& tag, const std::string& tip);

  double width_;
  double height_;
  std::string content_;
};

}  // namespace tw::report
