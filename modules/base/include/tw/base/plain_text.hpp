// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <tw/base/exact_text.hpp>

namespace tw {

/// `value` as in exact_text(), but without an exponent if its absolute value is 0 or lies between 0.0001 and 2^53. (Up to 2^53, doubles represent
/// every integer.)
inline std::string plain_text(double value) {
  const double size = std::abs(value);
  if (value != 0 && !(size >= 1e-4 && size <= 0x1p53)) return exact_text(value);
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr};
}

}  // namespace tw
