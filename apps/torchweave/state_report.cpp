// SPDX-License-Identifier: Apache-2.0
#include "state_report.hpp"

#include <algorithm>
#include <regex>

namespace tw::tool {

size_t find_state_report(std::string_view line) {
  constexpr size_t longest = 1000;  // std::regex recurses, so it must not see long lines
  static const std::regex form(R"(\[[^\s\[\]:]+:\d+\] \S+ ACTIVATE (PROC|JOB) \S+ STATE .* AT \S+:\d+\s*$)");
  const size_t begin = line.size() - std::min(line.size(), longest);
  const std::string_view end = line.substr(begin);
  std::match_results<std::string_view::const_iterator> match;
  if (end.find(" ACTIVATE ") == std::string_view::npos || !std::regex_search(end.begin(), end.end(), match, form)) return std::string_view::npos;
  return begin + static_cast<size_t>(match.position());
}

std::optional<ReportedEnd> parse_end(const std::string& report) {
  // The code in odls/ waits for processes of the daemon's own host.
  static const std::regex form(
      R"(\[(\S+):\d+\] \S+ ACTIVATE PROC \S+,(\d{1,9})\] STATE (ABORTED BY SIGNAL|EXITED WITH NON-ZERO STATUS) AT \S*/odls/\S+\s*)");
  std::smatch match;
  if (!std::regex_match(report, match, form)) return {};
  return ReportedEnd{.rank = std::stoi(match[2]), .host = match[1], .by_signal = match[3] == "ABORTED BY SIGNAL"};
}

}  // namespace tw::tool
