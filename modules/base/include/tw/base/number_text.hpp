// SPDX-License-Identifier: Apache-2.0
// Numbers as text, for people; use exact_text() for text that is parsed again. Independent of the locale.
#pragma once
#include <cstdint>
#include <string>

namespace tw {

/// `value` with `digits` digits after the decimal point: "0.50" with 2.
std::string fixed_text(double value, int digits);

/// `value` as printf's %g formats it: at most `digits` significant digits, and an exponent if the number is small or large: "0.25", "1e-05" with 4.
std::string brief_text(double value, int digits = 4);

/// `value` with one digit before the decimal point, `digits` digits after it, and an exponent: "2.50e-05" with 2.
std::string scientific_text(double value, int digits);

/// 16 hexadecimal digits, such as those of a content hash.
std::string hex_text(uint64_t value);

/// `value` with leading zeros: "0042" with 4 digits. Longer numbers keep all digits.
std::string padded_text(int64_t value, int digits);

}  // namespace tw
