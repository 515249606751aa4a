// SPDX-License-Identifier: Apache-2.0
// Cells of tables in the HTML report. Numbers have six digits for readability; trials.csv has all digits.
#pragma once
#include <cmath>
#include <string>
#include <tw/base/number_text.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// Empty for a value that is not finite.
inline std::string cell_text(double value) { return std::isfinite(value) ? brief_text(value, 6) : std::string(); }

/// Appends the values of a configuration, by parameter; "-" for a parameter that does not exist.
inline void append_cells(std::vector<std::string>& row, const Space& space, const std::vector<double>& values) {
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    const bool may_be_long = parameter.kind == Parameter::Kind::real && std::isfinite(values[i]);
    row.push_back(may_be_long ? cell_text(values[i]) : parameter.text_of(values[i]));
  }
}

}  // namespace tw::search
