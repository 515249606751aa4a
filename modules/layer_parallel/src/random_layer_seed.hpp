// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::layer_parallel {

/// The seed of what the random layers of a block draw in pass `call`; the stream is the layer.
inline uint64_t random_layer_seed(uint64_t seed, uint64_t block, uint64_t call) { return seed ^ (call + 1) << 20U ^ block << 56U; }

}  // namespace tw::layer_parallel
