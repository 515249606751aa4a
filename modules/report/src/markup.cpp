// SPDX-License-Identifier: Apache-2.0
#include <tw/report/markup.hpp>

namespace tw::report {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char each : text) {
    switch (each) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += static_cast<unsigned char>(each) < ' ' ? ' ' : each;
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

}  // namespace tw::report
