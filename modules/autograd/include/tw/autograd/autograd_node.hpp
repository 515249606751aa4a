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
  /// Takes the cotangents of all outputs (zeros where there are none), and returns those of the inputs. An undefined cotangent means that the input
  /// gets none.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& cotangents)> backward;
};

/// Returns the outputs of `functions.forward`; autograd treats them as functions of `inputs`. The functions and their captures live as long as the
/// graph, or until a backward pass without retain_graph ends. A backward pass after that throws ContractError.
std::vector<at::Tensor> make_node(const std::vector<at::Tensor>& inputs, NodeFunctions functions);

}  // namespace tw
