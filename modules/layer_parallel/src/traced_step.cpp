// SPDX-License-Identifier: Apache-2.0
#include "traced_step.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>

namespace tw::layer_parallel {

std::shared_ptr<torch::jit::Graph> trace_step(const Layer& layer, Integrator integrator, const std::vector<at::Tensor>& parameters,
                                              const State& example, const State& extras, double dt) {
  const c10::AutoGradMode no_gradients(false);
  torch::jit::Stack inputs;
  for (const auto* part : {&example, &extras, &parameters}) inputs.insert(inputs.end(), part->begin(), part->end());
  const auto call = [&](torch::jit::Stack stack) {
    State state;
    State given;
    for (size_t i = 0; i < example.size() + extras.size(); ++i) (i < example.size() ? state : given).push_back(stack[i].toTensor());
    torch::jit::Stack outputs;
    for (const at::Tensor& tensor : step(layer, integrator, state, given, dt)) outputs.emplace_back(tensor);
    return outputs;
  };
  return torch::jit::tracer::trace(std::move(inputs), call, [](const at::Tensor&) { return std::string(); }, /*strict=*/false).first->graph;
}

}  // namespace tw::layer_parallel
