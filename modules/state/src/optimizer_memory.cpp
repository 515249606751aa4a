// SPDX-License-Identifier: Apache-2.0
#include <tw/state/optimizer_memory.hpp>

#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <typeinfo>

namespace tw {

// An optimizer other than AdamW adds the weight decay to a copy of the gradient.
OptimizerTensors optimizer_tensors(const torch::optim::OptimizerOptions& options) {
  using namespace torch::optim;
  const auto one_if = [](bool holds) { return holds ? 1 : 0; };
  if (const auto* sgd = dynamic_cast<const SGDOptions*>(&options)) {
    return {one_if(sgd->momentum() != 0), one_if(sgd->weight_decay() != 0) + one_if(sgd->momentum() != 0 && sgd->nesterov())};
  }
  if (const auto* adam = dynamic_cast<const AdamOptions*>(&options)) {
    return {2 + one_if(adam->amsgrad()), 2 + one_if(adam->weight_decay() != 0)};
  }
  if (const auto* adamw = dynamic_cast<const AdamWOptions*>(&options)) return {2 + one_if(adamw->amsgrad()), 2};
  if (const auto* rmsprop = dynamic_cast<const RMSpropOptions*>(&options)) {
    return {1 + one_if(rmsprop->momentum() > 0) + one_if(rmsprop->centered()), 1 + one_if(rmsprop->weight_decay() != 0)};
  }
  if (const auto* adagrad = dynamic_cast<const AdagradOptions*>(&options)) return {1, 1 + one_if(adagrad->weight_decay() != 0)};
  TW_EXPECTS(false, "the memory of an optimizer with ", c10::demangle(typeid(options).name()),
             " is not known; known optimizers are SGD, Adam, AdamW, RMSprop and Adagrad");
  return {};
}

OptimizerMemory optimizer_memory(const torch::optim::Optimizer& optimizer) {
  OptimizerMemory memory;
  for (const auto& group : optimizer.param_groups()) {
    const OptimizerTensors tensors = optimizer_tensors(group.options());
    const bool has_state_at_once = dynamic_cast<const torch::optim::AdagradOptions*>(&group.options()) != nullptr;  // also of frozen parameters
    for (const at::Tensor& each : group.params()) {
      if (!each.has_storage() || each.storage().nbytes() == 0) continue;
      const auto bytes = static_cast<int64_t>(each.nbytes());
      if (each.requires_grad() || has_state_at_once) memory.state_bytes += tensors.state * bytes;
      if (!each.requires_grad()) continue;
      memory.temporary_bytes = std::max(memory.temporary_bytes, tensors.temporary * bytes);
    }
  }
  return memory;
}

}  // namespace tw
