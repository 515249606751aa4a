// SPDX-License-Identifier: Apache-2.0
// Numbers as text, for people; exact_text() is for what is read again. None looks at the locale.
#pragma once
#include <cstdint>
#include <string>

namespace tw {

/// `digits` after the point: "0.50" with 2.
std::string fixed_text(double value, int digits);

/// `digits` in all, and an exponent where it is shorter: "0.25", "1e-05" with 4.
std::string brief_text(double value, int digits = 4);

/// One digit before the point and `digits` after it: "2.50e-05" with 2.
std::string scientific_text(double value, int digits);

/// 16 hexadecimal digits, such as those of a content hash.
std::string hex_text(uint64_t value);

/// With zeros before it: "0042" with 4 digits. Numbers that have more keep them.
std::string padded_text(int64_t value, int digits);

}  // namespace tw
