// SPDX-License-Identifier: Apache-2.0
// Text streams in memory that ignore the global std::locale: numbers have a decimal point and no digit grouping.
#pragma once
#include <locale>
#include <sstream>

namespace tw {

/// A std::ostringstream in C++'s classic locale.
class TextWriter : public std::ostringstream {
 public:
  TextWriter() { imbue(std::locale::classic()); }
};

/// A std::istringstream in C++'s classic locale.
class TextReader : public std::istringstream {
 public:
  explicit TextReader(const std::string& text) : std::istringstream(text) { imbue(std::locale::classic()); }
};

}  // namespace tw
