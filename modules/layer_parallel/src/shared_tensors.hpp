// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Calls the factory of every layer and keeps none of the layers. Each rank stores only some layers, but all ranks must come to the same result.
/// Local. @param seed of initial values
/// @throws ContractError that names a tensor shared by two layers: on two ranks it would become two tensors that are trained separately
void expect_no_shared_tensors(const std::vector<Block>& blocks, uint64_t seed);

}  // namespace tw::layer_parallel
