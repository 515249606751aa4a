// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tw::graph {

/// For a tensor with a dotted name such as "layer1.0.weight", returns the submodule that holds it, and its name there. Creates missing submodules.
/// @param make returns a new submodule for its path, such as "layer1.0"; empty function: plain modules
std::pair<torch::nn::Module&, std::string> place_in_module(
    torch::nn::Module& root, const std::string& name, const std::function<std::shared_ptr<torch::nn::Module>(const std::string& path)>& make = {});

}  // namespace tw::graph
