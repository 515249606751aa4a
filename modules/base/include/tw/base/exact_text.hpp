// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <charconv>
#include <string>

namespace tw {

/// The shortest decimal text that identifies `value` uniquely; parsing it returns the same number.
inline std::string exact_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace tw
