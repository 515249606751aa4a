// SPDX-License-Identifier: Apache-2.0
#include "markup.hpp"

namespace tw::search {
namespace {

std::string attribute(const char* name, double value) { return std::string(" ") + name + "=\"" + pixel_text(value) + '"'; }
std::string attribute(const char* name, const std::string& value) { return std::string(" ") + name + "=\"" + escaped(value) + '"'; }

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char each : text) {
    switch (each) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += static_cast<unsigned char>(each) < ' ' ? ' ' : each;  // HTML has no control characters
    }
  }
  return result;
}

std::string element(const std::string& tag, const std::string& content) { return '<' + tag + '>' + content + "</" + tag + ">\n"; }

std::string row(const std::vector<std::string>& cells, const std::string& tag) {
  std::string result;
  for (const std::string& cell : cells) result.append("<").append(tag).append(">").append(escaped(cell)).append("</").append(tag).append(">");
  return element("tr", result);
}

std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string result = row(head, "th");
  for (const auto& each : rows) result += row(each);
  return "<div class=\"wide\">" + element("table", result) + "</div>\n";
}

void Svg::close(const std::string& tag, const std::string& tip) {
  content_ += tip.empty() ? "/>\n" : "><title>" + escaped(tip) + "</title></" + tag + ">\n";
}

void Svg::line(Point a, Point b, const std::string& colour) {
  content_ += "<line" + attribute("x1", a.x) + attribute("y1", a.y) + attribute("x2", b.x) + attribute("y2", b.y) + attribute("stroke", colour);
  close("line", "");
}

void Svg::text(Point at, const std::string& anchor, const std::string& words, double turned) {
  content_ += "<text" + attribute("x", at.x) + attribute("y", at.y) + attribute("text-anchor", anchor);
  if (turned != 0) content_ += attribute("transform", "rotate(" + pixel_text(turned) + ' ' + pixel_text(at.x) + ' ' + pixel_text(at.y) + ')');
  content_ += '>' + escaped(words) + "</text>\n";
}

void Svg::rect(Point corner, double width, double height, const std::string& colour, const std::string& tip) {
  content_ += "<rect" + attribute("x", corner.x) + attribute("y", corner.y) + attribute("width", width) + attribute("height", height) +
              attribute("fill", colour);
  close("rect", tip);
}

void Svg::circle(Point centre, double radius, const std::string& colour, const std::string& tip) {
  content_ += "<circle" + attribute("cx", centre.x) + attribute("cy", centre.y) + attribute("r", radius) + attribute("fill", colour);
  close("circle", tip);
}

void Svg::path(const std::vector<Point>& points, const std::string& colour, const std::string& kind, const std::string& tip) {
  std::string places;
  for (const Point point : points) places += (places.empty() ? "" : " ") + pixel_text(point.x) + ',' + pixel_text(point.y);
  content_ += "<polyline" + attribute("class", kind) + attribute("stroke", colour) + attribute("points", places);
  close("polyline", tip);
}

std::string Svg::str() const {
  return "<div class=\"wide\"><svg" + attribute("width", width_) + attribute("height", height_) + ">\n" + content_ + "</svg></div>\n";
}

}  // namespace tw::search
