// SPDX-License-Identifier: Apache-2.0
#include "pixels.hpp"

void tw::pixels_to_floats(float* __restrict out, const uint8_t* __restrict in, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) * (2.0F / 255.0F) - 1.0F;
}
