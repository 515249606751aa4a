// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cstdint>

namespace tw {

/// The upper 16 bits of a float32. Convert it to float to compute with it.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays NaN.
  explicit BFloat16(float value) {
    const auto all = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (all + 0x7fffU + ((all >> 16) & 1U)) >> 16;
    bits = static_cast<uint16_t>(value != value ? 0x7fc0U : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

}  // namespace tw
