// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <set>

namespace tw {

// A sum of outputs that are not finite would not be zero times anything.
at::Tensor zero_of(const std::vector<at::Tensor>& outputs) {
  at::Tensor zero = at::zeros({});
  for (const at::Tensor& each : outputs) {
    if (each.requires_grad()) zero = zero + at::nan_to_num(each.flatten().slice(0, 0, 1), 0, 0, 0).sum() * 0;
  }
  return zero;
}

void expect_only_outputs(const at::Tensor& loss, const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& parameters) {
  using torch::autograd::Node;
  std::set<const Node*> seen;
  for (const at::Tensor& each : outputs) seen.insert(each.grad_fn().get());
  std::vector<Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node)) {
      const bool is_known = std::ranges::any_of(parameters, [&](const at::Tensor& each) { return each.is_same(leaf->variable); });
      TW_EXPECTS(is_known, "the loss depends on a tensor of shape ", leaf->variable.sizes(),
                 " that requires a gradient and is no parameter of the model, so its gradient would not be summed over the ranks: register it in ",
                 "the module");
    }
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
}

}  // namespace tw
