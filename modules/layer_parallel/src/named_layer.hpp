// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/block.hpp>

namespace tw::layer_parallel {

/// The same layer, which says that it is `name` where LibTorch throws in it, and where it gives an undefined tensor.
Layer named_layer(Layer layer, std::string name);

}  // namespace tw::layer_parallel
