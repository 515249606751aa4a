// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/error.hpp>
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "recorder.hpp"

namespace tw::graph {

/// One run of a module.
struct Run {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  std::vector<Call> calls;
};

/// A tensor that no recorded operator returns. It may come from inside an operator whose gradient the module computes in its forward pass.
struct UnknownTensor : Error {
  using Error::Error;
};

/// The graph of a run, valid for its shapes only; its first values are inputs, parameters and buffers. @throws Error naming an operator that a graph
/// cannot replay
Graph graph_of(const Run& run, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers);

/// e.g. "aten::add.Tensor"
std::string full_name(const std::string& name, const std::string& overload);

}  // namespace tw::graph
