// SPDX-License-Identifier: Apache-2.0
// Reads comma-separated values. Ref: RFC 4180.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tw::search {

using TextRow = std::vector<std::string>;

/// The rows of the table, starting with the header. Quotes are removed; a quoted field may contain line ends.
std::vector<TextRow> rows_of_csv(const std::string& text);

}  // namespace tw::search
