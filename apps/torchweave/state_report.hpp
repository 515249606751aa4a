// SPDX-License-Identifier: Apache-2.0
// What Open MPI's daemons report about the states of a job and its processes if the MCA parameter state_base_verbose is 1. Pure.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tw::tool {

/// Where a report begins in `line`, such as "[b:71] [[5,0],1] ACTIVATE PROC [[5,1],3] STATE RUNNING AT odls.c:7"; npos if there is none. A report
/// ends its line, and may follow output of a rank that lacks a line end.
size_t find_state_report(std::string_view line);

/// A process that died, as the daemon on its host reports it.
struct ReportedEnd {
  int rank = 0;
  std::string host;
  bool by_signal = false;  ///< otherwise by an exit code; reports do not say which
};
/// Empty if `report` is about something else, or passes on what another daemon reported.
std::optional<ReportedEnd> parse_end(const std::string& report);

}  // namespace tw::tool
