// SPDX-License-Identifier: Apache-2.0
#include "step_graph.hpp"

#include <c10/core/GradMode.h>

#include <tw/graph/capture.hpp>

namespace tw::layer_parallel {

graph::Graph step_graph(const LayerStack& stack, int64_t layer, Integrator integrator, const State& example, const State& extras, double dt) {
  const c10::AutoGradMode no_gradients(false);
  std::vector<NamedTensor> parameters;
  const std::vector<at::Tensor> tensors = stack.parameters_of(layer);
  for (size_t p = 0; p < tensors.size(); ++p) parameters.push_back({stack.parameters()[p].name, tensors[p]});
  State inputs = example;
  inputs.insert(inputs.end(), extras.begin(), extras.end());
  const auto call = [&](const State& given) {
    const auto behind_states = given.begin() + static_cast<std::ptrdiff_t>(example.size());
    return step(stack.layer(layer), integrator, {given.begin(), behind_states}, {behind_states, given.end()}, dt);
  };
  return graph::capture_call(call, parameters, inputs);
}

}  // namespace tw::layer_parallel
