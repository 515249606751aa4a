// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <sstream>
#include <tw/base/contract.hpp>
#include <tw/planning/simulation.hpp>

namespace tw::pipeline {

std::string gantt_text(const Simulation& simulation, int width) {
  TW_EXPECTS(width >= 10, "a chart is at least 10 characters wide, not ", width);
  std::ostringstream out;
  const double scale = simulation.duration > 0 ? width / simulation.duration : 0;
  for (size_t device = 0; device < simulation.devices.size(); ++device) {
    std::string line(static_cast<size_t>(width), '.');
    for (const auto& [action, begin, end] : simulation.devices[device]) {
      const bool is_forward = action.kind == Action::Kind::forward;
      const char mark = static_cast<char>(is_forward ? '0' + action.micro_batch % 10 : 'a' + action.micro_batch % 26);
      const auto first = static_cast<size_t>(std::lround(begin * scale));
      const auto last = std::min(static_cast<size_t>(std::lround(end * scale)), line.size());
      std::fill(line.begin() + static_cast<std::ptrdiff_t>(std::min(first, last)), line.begin() + static_cast<std::ptrdiff_t>(last), mark);
    }
    out << "device " << device << (device < 10 ? "  |" : " |") << line << "|\n";
  }
  return std::move(out).str();
}

std::string gantt_svg(const Simulation& simulation) {
  constexpr double width = 960;
  constexpr double row = 28;
  constexpr double left = 80;
  const double scale = simulation.duration > 0 ? width / simulation.duration : 0;
  const double height = row * static_cast<double>(simulation.devices.size());
  std::ostringstream out;
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << left + width << R"(" height=")" << height
      << R"(" font-family="sans-serif" font-size="12">)" << '\n';
  for (size_t device = 0; device < simulation.devices.size(); ++device) {
    const double y = row * static_cast<double>(device);
    out << R"(<text x="4" y=")" << y + 18 << R"(">device )" << device << "</text>\n";
    for (const auto& [action, begin, end] : simulation.devices[device]) {
      const bool is_forward = action.kind == Action::Kind::forward;
      const double x = left + begin * scale;
      const double length = (end - begin) * scale;
      out << R"(<rect x=")" << x << R"(" y=")" << y + 2 << R"(" width=")" << length << R"(" height=")" << row - 4 << R"(" fill=")"
          << (is_forward ? "#9ecae1" : "#fdae6b") << R"(" stroke="white"/><text x=")" << x + length / 2 << R"(" y=")" << y + 18
          << R"(" text-anchor="middle">)" << action.micro_batch << "</text>\n";
    }
  }
  out << "</svg>\n";
  return std::move(out).str();
}

}  // namespace tw::pipeline
