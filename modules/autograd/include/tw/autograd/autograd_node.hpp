// SPDX-License-Identifier: Apache-2.0
// A pair of functions as one node of autograd's graph, for passes that communicate.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace tw {

struct NodeFunctions {
  /// The outputs; called at once, without gradient.
  std::function<std::vector<at::Tensor>()> forward;
  /// Given the cotangents of all outputs, zeros where there are none, returns those of the inputs; undefined ones are not wanted.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& cotangents)> backward;
};

/// The outputs of `functions.forward`, which autograd takes to depend on `inputs`. What the functions hold lives as long as the graph, or until a
/// backward pass without retain_graph has ended; a second one throws ContractError.
std::vector<at::Tensor> make_node(const std::vector<at::Tensor>& inputs, NodeFunctions functions);

}  // namespace tw
