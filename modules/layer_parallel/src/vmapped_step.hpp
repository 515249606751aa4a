// SPDX-License-Identifier: Apache-2.0
// A captured step, run for n states with n sets of parameters as one tensor operation, by functorch's vmap. Differentiable by autograd.
#pragma once
#include <tw/graph/interpreter.hpp>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

class VmappedStep {
 public:
  /// @param graph see step_graph()
  explicit VmappedStep(const graph::Graph& graph);

  bool is_random() const noexcept { return interpreter_.is_random(); }
  /// @param states, parameters stacked, [n, ...]. @return stacked. @throws when an operation cannot be batched
  State run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const;

 private:
  graph::Interpreter interpreter_;  // its parameters are inputs, after states and extras
};

}  // namespace tw::layer_parallel
