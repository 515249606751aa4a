// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {

/// Reverses the order of stacked states.
inline State flipped(const State& stacked) {
  return each(stacked, [](const at::Tensor& t) { return t.size(0) == 1 ? t : t.flip(0); });
}

}  // namespace tw::layer_parallel
