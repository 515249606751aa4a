// SPDX-License-Identifier: Apache-2.0
// A pair of functions as one node of autograd's graph, for passes that communicate.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tw {

struct NodeFunctions {
  /// Computes the outputs. Called once, by make_node(), with grad mode off.
  std::function<std::vector<at::Tensor>()> forward;
  /// Computes the cotangents (gradients) of all inputs from those of all outputs; an output without a cotangent gets zeros. Return an undefined
  /// tensor for an input without a cotangent.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& cotangents)> backward;
};

/// Returns the outputs of `functions.forward`; autograd treats them as functions of `inputs`. The functions and their captures live as long as the
/// graph, but at most until a backward pass without retain_graph has used them. A later backward pass throws ContractError.
std::vector<at::Tensor> make_node(const std::vector<at::Tensor>& inputs, NodeFunctions functions);

}  // namespace tw
