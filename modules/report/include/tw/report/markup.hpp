// SPDX-License-Identifier: Apache-2.0
// Text as HTML or XML.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::report {

/// Escapes text for content and for attributes in double quotes. Control characters, including tabs and line ends, become blanks: most are not
/// allowed in HTML and XML.
std::string escaped(std::string_view text);

/// An element such as "<th>...</th>". @param content HTML, not escaped
std::string element(const std::string& tag, const std::string& content);

/// A table row of plain texts, which are escaped. @param tag td or th
std::string row(const std::vector<std::string>& cells, const std::string& tag = "td");

/// A table of plain texts, which are escaped, with the header row `head`. A wide table scrolls sideways.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

}  // namespace tw::report
