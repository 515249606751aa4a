// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// `text` as one field of a CSV file: in quotes if it contains commas, quotes or line ends. Ref: RFC 4180.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"') quoted += '"';
    quoted += each;
  }
  return quoted + '"';
}

}  // namespace tw
