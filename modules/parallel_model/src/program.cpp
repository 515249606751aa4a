// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>

namespace tw {

std::string other_leaf(const at::Tensor& loss, const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& known) {
  using torch::autograd::Node;
  std::set<const Node*> seen;
  for (const at::Tensor& each : outputs) {
    if (each.defined()) seen.insert(each.grad_fn().get());
  }
  std::vector<Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      const bool is_known = std::ranges::any_of(known, [&](const at::Tensor& each) { return each.is_same(leaf->variable); });
      if (!is_known) return concat(leaf->variable.sizes());
    }
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return "";
}

int64_t mode_of(const TrainableModel& model) {
  const auto* module = dynamic_cast<const torch::nn::Module*>(&model);
  if (module == nullptr) return 0;
  return module->is_training() ? 1 : 2;
}

void ProgramPass::warn_of_others(const at::Tensor& mean, const std::vector<at::Tensor>& outputs) const {
  std::vector<at::Tensor> known = parameters;
  known.insert(known.end(), inputs.begin(), inputs.end());
  const std::string shape = other_leaf(mean, outputs, known);
  warns = false;
  if (shape.empty()) return;
  log_warning("the loss depends on a tensor of shape ", shape, " that requires a gradient and is no parameter of the model, so its gradient is not ",
              "summed over the ranks: if it is trained, register it in the module");
}

}  // namespace tw
