// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/random.hpp>

namespace tw::layer_parallel {

/// Seed of a network's random layers, from the seed of its options. @param replica see TrainableModel::set_replica()
inline uint64_t random_seed(uint64_t seed, int64_t replica) { return derived_seed(seed, static_cast<uint64_t>(replica)); }

/// Seed of a block's random layers in training pass `call`; the stream is the layer. @param seed random_seed()
inline uint64_t random_layer_seed(uint64_t seed, uint64_t block, uint64_t call) { return derived_seed(derived_seed(seed, call), block); }

}  // namespace tw::layer_parallel
