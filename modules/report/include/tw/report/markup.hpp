// SPDX-License-Identifier: Apache-2.0
// Text as HTML and XML.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::report {

/// For content and for attributes in double quotes. Control characters, which there are none of in HTML and XML, become blanks.
std::string escaped(std::string_view text);

/// "<th>...</th>" and so on, of what is HTML already.
std::string element(const std::string& tag, const std::string& content);

/// A row of a table, of plain texts. @param tag td or th
std::string row(const std::vector<std::string>& cells, const std::string& tag = "td");

/// Rows of plain texts below a head. Wide ones scroll.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

}  // namespace tw::report
