// SPDX-License-Identifier: Apache-2.0
// Tables of comma-separated values. Ref: RFC 4180.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace tw::search {

using TextRow = std::vector<std::string>;

/// Rows of fields, the head first; quotes are taken off, and a field may hold line ends.
std::vector<TextRow> rows_of_csv(const std::string& text);

}  // namespace tw::search
