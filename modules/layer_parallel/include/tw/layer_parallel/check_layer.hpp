// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Checks what LayerParallel assumes of an ODE block's layers: that a step keeps shapes and dtypes, returns equal results for equal inputs
/// (of `random` blocks: for equal states of the generator) and finite ones, depends on dt, lets gradients through to state and parameters, and that
/// the factory makes a new layer with each call. Not collective.
/// @param example a state, such as one sample. @param dt the step size.
/// @return what is wrong, a line each; empty when nothing is
std::vector<std::string> check_layer(const Block& block, const State& example, double dt = 0.1, const State& extras = {});

}  // namespace tw::layer_parallel
