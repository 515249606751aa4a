// SPDX-License-Identifier: Apache-2.0
#include <tw/report/svg.hpp>

#include <array>
#include <charconv>
#include <tw/report/markup.hpp>

namespace tw::report {
namespace {

std::string pixels(double length) {
  std::array<char, 400> text{};  // enough for the largest double
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), length, std::chars_format::fixed, 1).ptr};
}

std::string pair_text(Point point, char between) { return pixels(point.x) + between + pixels(point.y); }

std::string places_of(const std::vector<Point>& points) {
  std::string places;
  for (const Point point : points) places += (places.empty() ? "" : " ") + pair_text(point, ',');
  return places;
}

}  // namespace

Attribute::Attribute(std::string called, double length) : name(std::move(called)), value(pixels(length)) {}

Attribute turned(double degrees, Point around) { return {"transform", "rotate(" + pixels(degrees) + ' ' + pair_text(around, ' ') + ')'}; }

void Svg::open(const std::string& tag, const Attributes& attributes, const Attributes& more) {
  content_.append("<").append(tag);
  for (const Attributes* each : {&attributes, &more}) {
    for (const auto& [name, value] : *each) content_.append(" ").append(name).append("=\"").append(escaped(value)).append("\"");
  }
}

void Svg::close(const std::string& tag, const std::string& tip) {
  content_ += tip.empty() ? "/>\n" : "><title>" + escaped(tip) + "</title></" + tag + ">\n";
}

void Svg::line(Point a, Point b, const std::string& colour, const Attributes& more) {
  open("line", {{"x1", a.x}, {"y1", a.y}, {"x2", b.x}, {"y2", b.y}, {"stroke", colour}}, more);
  close("line", "");
}

void Svg::text(Point at, const std::string& anchor, const std::string& content, const Attributes& more) {
  open("text", {{"x", at.x}, {"y", at.y}, {"text-anchor", anchor}}, more);
  content_ += '>' + escaped(content) + "</text>\n";
}

void Svg::rect(Point corner, double width, double height, const std::string& colour, const std::string& tip, const Attributes& more) {
  open("rect", {{"x", corner.x}, {"y", corner.y}, {"width", width}, {"height", height}, {"fill", colour}}, more);
  close("rect", tip);
}

void Svg::circle(Point centre, double radius, const std::string& colour, const std::string& tip, const Attributes& more) {
  open("circle", {{"cx", centre.x}, {"cy", centre.y}, {"r", radius}, {"fill", colour}}, more);
  close("circle", tip);
}

void Svg::polyline(const std::vector<Point>& points, const std::string& colour, const std::string& tip, const Attributes& more) {
  open("polyline", {{"fill", "none"}, {"stroke", colour}, {"points", places_of(points)}}, more);
  close("polyline", tip);
}

void Svg::area(const std::vector<Point>& points, const std::string& colour, const std::string& tip) {
  open("polygon", {{"fill", colour}, {"points", places_of(points)}}, {});
  close("polygon", tip);
}

void Svg::curve(Point from, Point control, Point other_control, Point to, const std::string& colour, const Attributes& more) {
  const std::string way =
      'M' + pair_text(from, ' ') + " C" + pair_text(control, ' ') + ' ' + pair_text(other_control, ' ') + ' ' + pair_text(to, ' ');
  open("path", {{"fill", "none"}, {"stroke", colour}, {"d", way}}, more);
  close("path", "");
}

void Svg::begin_group(const Attributes& attributes) {
  open("g", attributes, {});
  content_ += ">\n";
}

std::string Svg::in_page() const {
  return "<div class=\"wide\"><svg width=\"" + pixels(width_) + "\" height=\"" + pixels(height_) + "\">\n" + content_ + "</svg></div>\n";
}

std::string Svg::file() const {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + pixels(width_) + "\" height=\"" + pixels(height_) + "\" viewBox=\"0 0 " +
         pair_text({width_, height_}, ' ') + "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n" +
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + content_ + "</svg>\n";
}

}  // namespace tw::report
