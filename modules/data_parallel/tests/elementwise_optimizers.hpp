// SPDX-License-Identifier: Apache-2.0
// LibTorch's elementwise optimizers, with the options that need the most state.
#pragma once
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

namespace tw::testing {

inline const std::vector<std::string> elementwise_optimizers{"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"};

inline std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  if (name == "SGD") return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3));
  if (name == "Adam") return std::make_unique<Adam>(parameters, AdamOptions(1e-3).amsgrad(true));
  if (name == "AdamW") return std::make_unique<AdamW>(parameters, AdamWOptions(1e-3).weight_decay(0.1));
  if (name == "RMSprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(1e-3).momentum(0.5).centered(true));
  return std::make_unique<Adagrad>(parameters, AdagradOptions(1e-2));
}

}  // namespace tw::testing
