// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/block.hpp>

namespace tw::layer_parallel {

/// The same layer, which says that it is `name` where LibTorch throws in it, and where it gives an undefined tensor.
/// @param of_ode it is one of an ODE block: that it gives anything but a state like its own, or a slope of one, is said too.
Layer named_layer(Layer layer, std::string name, bool of_ode);

}  // namespace tw::layer_parallel
