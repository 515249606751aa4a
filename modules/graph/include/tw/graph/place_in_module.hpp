// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <utility>

namespace tw::graph {

/// Where a tensor of a dotted name such as "layer1.0.weight" belongs: the submodule, which is made where there is none, and the last name.
std::pair<torch::nn::Module&, std::string> place_in_module(torch::nn::Module& root, std::string name);

}  // namespace tw::graph
