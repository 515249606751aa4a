// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace tw::graph {

/// Returns the submodule and the last name of a tensor with a dotted name such as "layer1.0.weight". Creates missing submodules.
std::pair<torch::nn::Module&, std::string> place_in_module(torch::nn::Module& root, std::string name);

}  // namespace tw::graph
