// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <cmath>
#include <string>
#include <tw/base/exact_text.hpp>

namespace tw::search {

/// exact_text(); empty for what is not finite.
inline std::string finite_text(double value) { return std::isfinite(value) ? exact_text(value) : std::string(); }

/// For people: four digits.
inline std::string brief_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general, 4);
  return {text, end.ptr};
}

}  // namespace tw::search
