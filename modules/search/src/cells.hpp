// SPDX-License-Identifier: Apache-2.0
// What stands in tables of the report's page. Six digits are read at a glance; trials.csv has all of them.
#pragma once
#include <cmath>
#include <string>
#include <tw/base/number_text.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Empty for what is not finite.
inline std::string cell_text(double value) { return std::isfinite(value) ? brief_text(value, 6) : std::string(); }

/// The values of a configuration, by parameter; "-" for what does not exist.
inline void append_cells(std::vector<std::string>& row, const Space& space, const std::vector<double>& values) {
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    const bool may_be_long = parameter.kind == Parameter::Kind::real && std::isfinite(values[i]);
    row.push_back(may_be_long ? cell_text(values[i]) : parameter.text_of(values[i]));
  }
}

}  // namespace tw::search
