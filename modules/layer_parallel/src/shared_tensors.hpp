// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Calls the factory of every layer, keeping none: each rank has only some of the layers, and all must find the same. Local. @param seed of initial
/// values
/// @throws ContractError that names a tensor that two layers have: on two ranks it would become two tensors, which are trained apart
void expect_no_shared_tensors(const std::vector<Block>& blocks, uint64_t seed);

}  // namespace tw::layer_parallel
