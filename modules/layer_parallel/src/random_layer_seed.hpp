// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/random.hpp>

namespace tw::layer_parallel {

/// The seed of what the random layers of a block draw in pass `call`; the stream is the layer. Layers are made with the seed itself.
inline uint64_t random_layer_seed(uint64_t seed, uint64_t block, uint64_t call) { return derived_seed(derived_seed(seed, call), block); }

}  // namespace tw::layer_parallel
