// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/capture.hpp>

#include "builder.hpp"

namespace tw::graph {

/// What a module makes of other rows than those that were captured.
struct Probe {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> buffers;  // after it
};

/// Refuses a graph whose replay differs from the module in what operators do not show: values that were read or written past them, gradients of the
/// user's own. @param run the one that was captured, with autograd's records
/// @throws Error saying what differs
void expect_faithful(const Graph& graph, const Run& run, const Probe& probe, const std::vector<NamedTensor>& parameters,
                     const std::vector<NamedTensor>& buffers);

}  // namespace tw::graph
