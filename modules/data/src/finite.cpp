// SPDX-License-Identifier: Apache-2.0
#include "finite.hpp"

#include <cstring>

namespace tw {
namespace {

// IEEE 754: NaN and infinity have exponent bits of all ones. The loop has no early exit, so that it vectorises.
template <class Bits>
bool no_full_exponent(const void* data, int64_t count, Bits exponent) noexcept {
  const auto* bytes = static_cast<const char*>(data);
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found == 0;
}

}  // namespace

bool all_finite(const void* data, int64_t count, c10::ScalarType dtype) noexcept {
  switch (dtype) {
    case c10::kHalf: return no_full_exponent<uint16_t>(data, count, 0x7C00);
    case c10::kBFloat16: return no_full_exponent<uint16_t>(data, count, 0x7F80);
    case c10::kFloat: return no_full_exponent<uint32_t>(data, count, 0x7F800000);
    case c10::kDouble: return no_full_exponent<uint64_t>(data, count, 0x7FF0000000000000);
    case c10::kComplexHalf: return no_full_exponent<uint16_t>(data, 2 * count, 0x7C00);
    case c10::kComplexFloat: return no_full_exponent<uint32_t>(data, 2 * count, 0x7F800000);
    case c10::kComplexDouble: return no_full_exponent<uint64_t>(data, 2 * count, 0x7FF0000000000000);
    default: return true;
  }
}

int64_t first_non_finite_row(const void* data, int64_t rows, int64_t row_elements, c10::ScalarType dtype) noexcept {
  if (all_finite(data, rows * row_elements, dtype)) return -1;
  const auto row_bytes = row_elements * static_cast<int64_t>(c10::elementSize(dtype));
  int64_t row = 0;
  while (all_finite(static_cast<const char*>(data) + row * row_bytes, row_elements, dtype)) ++row;
  return row;
}

}  // namespace tw
