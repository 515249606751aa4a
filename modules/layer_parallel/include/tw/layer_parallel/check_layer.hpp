// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Checks what LayerParallel assumes of an ODE block's layers:
/// - a step keeps shapes and dtypes;
/// - its results are finite, depend on dt, and are equal for equal inputs (and, for `random` blocks, equal generator states);
/// - gradients reach the state and the parameters;
/// - the factory makes a new layer in each call.
/// Local.
/// @param example an initial state, such as one sample. @param dt the step size.
/// @return the problems, one line each; empty if there are none
std::vector<std::string> check_layer(const Block& block, const State& example, double dt = 0.1, const State& extras = {});

}  // namespace tw::layer_parallel
