// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <string_view>

namespace tw::search {

std::vector<TextRow> rows_of_csv(const std::string& text) {
  std::vector<TextRow> rows;
  TextRow row(1);
  bool quoted = false;
  const auto end_row = [&] {
    if (row.size() > 1 || !row[0].empty()) rows.push_back(row);
    row.assign(1, "");
  };
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  for (size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0; i < text.size(); ++i) {
    const char each = text[i];
    if (quoted && each == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (each == '"') {
      quoted = !quoted;
    } else if (quoted || (each != ',' && each != '\n' && each != '\r')) {
      row.back() += each;
    } else if (each == ',') {
      row.emplace_back();
    } else if (each == '\n') {
      end_row();
    }
  }
  end_row();
  return rows;
}

}  // namespace tw::search
