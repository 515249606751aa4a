// SPDX-License-Identifier: Apache-2.0
// Modules captured and replayed, for tests.
#pragma once
#include <torch/torch.h>

#include <map>
#include <string>
#include <tw/graph/capture.hpp>
#include <tw/graph/interpreter.hpp>
#include <vector>

namespace tw::graph {

using Tensors = std::vector<at::Tensor>;

inline std::map<std::string, at::Tensor> tensors_of(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> all;
  for (const auto& each : module.named_parameters()) all[each.key()] = each.value();
  for (const auto& each : module.named_buffers()) all[each.key()] = each.value();
  return all;
}

inline Graph captured(const torch::nn::Module& module, const Forward& forward, const Tensors& example) {
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  for (const auto& each : module.named_parameters()) parameters.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) buffers.push_back({each.key(), each.value()});
  return capture(forward, without_aliases(parameters), buffers, example);
}

/// An interpreter for all of `graph`, with `module`'s tensors.
inline Interpreter interpreter_of(const Graph& graph, const torch::nn::Module& module) {
  return {graph, [all = tensors_of(module)](const std::string& name) { return all.at(name); }};
}

}  // namespace tw::graph
