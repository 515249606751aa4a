// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw {

/// `count` bytes at `in` as numbers at `out`: 0 (black) is -1, 255 (white) is 1.
void pixels_to_floats(float* __restrict out, const uint8_t* __restrict in, int64_t count) noexcept;

}  // namespace tw
