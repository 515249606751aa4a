// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <algorithm>
#include <string>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::pipeline {

/// The parameters of a module that do not require gradients at construction.
class FrozenParameters {
 public:
  explicit FrozenParameters(const torch::nn::Module& module) {
    for (const auto& each : module.named_parameters()) {
      if (!each.value().requires_grad()) parameters_.push_back({each.key(), each.value()});
    }
  }

  /// The name of a parameter that requires a gradient now; empty: none does.
  std::string unfrozen() const {
    const auto found = std::ranges::find_if(parameters_, [](const NamedTensor& each) { return each.tensor.requires_grad(); });
    return found == parameters_.end() ? "" : found->name;
  }

 private:
  std::vector<NamedTensor> parameters_;
};

}  // namespace tw::pipeline
