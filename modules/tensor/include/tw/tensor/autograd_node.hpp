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

/// The outputs of `functions.forward`, which autograd takes to depend on `inputs`.
std::vector<at::Tensor> make_node(const std::vector<at::Tensor>& inputs, NodeFunctions functions);

}  // namespace tw
