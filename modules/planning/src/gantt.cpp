// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/planning/simulation.hpp>
#include <tw/report/svg.hpp>

namespace tw::pipeline {

std::string gantt_text(const Simulation& simulation, int width) {
  TW_EXPECTS(width >= 10, "a chart must be at least 10 characters wide, got ", width);
  TextWriter out;
  const double scale = simulation.duration > 0 ? width / simulation.duration : 0;
  for (size_t device = 0; device < simulation.devices.size(); ++device) {
    std::string line(static_cast<size_t>(width), '.');
    for (const auto& [action, begin, end] : simulation.devices[device]) {
      const char from_a = action.kind == Action::Kind::backward_weight ? 'A' : 'a';
      const char mark = static_cast<char>(action.is_forward() ? '0' + action.micro_batch % 10 : from_a + action.micro_batch % 26);
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
  report::Svg svg(left + width, row * static_cast<double>(simulation.devices.size()));
  for (size_t device = 0; device < simulation.devices.size(); ++device) {
    const double y = row * static_cast<double>(device);
    svg.text({4, y + 18}, "start", concat("device ", device));
    for (const auto& [action, begin, end] : simulation.devices[device]) {
      constexpr std::array colours{"#9ecae1", "#fdae6b", "#fdae6b", "#a1d99b"};  // by Action::Kind
      const double x = left + begin * scale;
      const double length = (end - begin) * scale;
      svg.rect({x, y + 2}, length, row - 4, colours.at(static_cast<size_t>(action.kind)), "", {{"stroke", "white"}});
      svg.text({x + length / 2, y + 18}, "middle", concat(action.micro_batch));
    }
  }
  return svg.file();
}

}  // namespace tw::pipeline
