// SPDX-License-Identifier: Apache-2.0
// A step as a graph of operations, a value of its own.
#pragma once
#include <memory>
#include <tw/layer_parallel/block.hpp>

namespace torch::jit {
struct Graph;
}

namespace tw::layer_parallel {

/// Traces one step. @param parameters the layer's own. @return a graph from states, extras and parameters to states. @throws when it cannot be traced
std::shared_ptr<torch::jit::Graph> trace_step(const Layer& layer, Integrator integrator, const std::vector<at::Tensor>& parameters,
                                              const State& example, const State& extras, double dt);

}  // namespace tw::layer_parallel
