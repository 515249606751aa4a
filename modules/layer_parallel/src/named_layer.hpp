// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/block.hpp>

namespace tw::layer_parallel {

/// The same layer, with `name` in the message of every exception from LibTorch, and with an error if it returns an undefined tensor.
/// @param of_ode the layer belongs to an ODE block: the result must then also have the shapes of the state, or of a slope that can be broadcast to it
Layer named_layer(Layer layer, std::string name, bool of_ode);

}  // namespace tw::layer_parallel
