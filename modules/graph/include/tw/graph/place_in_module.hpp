// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace tw::graph {

/// For a tensor with a dotted name such as "layer1.0.weight", returns the submodule that holds it, and its name there. Creates missing submodules.
std::pair<torch::nn::Module&, std::string> place_in_module(torch::nn::Module& root, std::string name);

}  // namespace tw::graph
