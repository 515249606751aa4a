// SPDX-License-Identifier: Apache-2.0
// A step as a graph of operators.
#pragma once
#include <tw/graph/graph.hpp>
#include <tw/layer_parallel/block.hpp>

#include "layer_stack.hpp"

namespace tw::layer_parallel {

/// Captures one step of `layer`, from states to states. The graph's inputs are states, then extras; its first values are these inputs, then the
/// layer's parameters.
/// @throws Error naming the operator that a graph cannot repeat, and whatever the layer throws
graph::Graph step_graph(const LayerStack& stack, int64_t layer, Integrator integrator, const State& example, const State& extras, double dt);

}  // namespace tw::layer_parallel
