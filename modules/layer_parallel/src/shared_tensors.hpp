// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Calls each factory, of ODE blocks twice, as each rank can that has but some of the layers. Local. @param seed of initial values
/// @throws ContractError that names a tensor that two layers have: on two ranks it would become two tensors, which are trained apart
void expect_no_shared_tensors(const std::vector<Block>& blocks, uint64_t seed);

}  // namespace tw::layer_parallel
