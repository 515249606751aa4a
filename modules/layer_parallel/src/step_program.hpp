// SPDX-License-Identifier: Apache-2.0
// A step as a straight-line program of operations that run for several layers at once, without autograd.
#pragma once
#include <memory>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

#include "linearised.hpp"
#include "step_rules.hpp"

namespace tw::layer_parallel {

class StepProgram {
 public:
  /// @param graph see step_graph(). @param states, extras number of inputs of each kind.
  /// @return null if an operation has no rule, with the reason in `problem`
  static std::unique_ptr<StepProgram> compile(const graph::Graph& graph, size_t states, size_t extras, std::string& problem);

  /// Tensors that transposed() needs, by value.
  using Kept = std::vector<at::Tensor>;
  /// @param states, parameters stacked. @param kept null: nothing is kept.
  State run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters, Kept* kept) const;
  /// See Linearised::transposed().
  State transposed(const Kept& kept, const Rows& rows, const State& cotangents, const std::vector<at::Tensor>& gradients) const;

 private:
  StepProgram() = default;

  size_t states_ = 0;  // values are numbered as in the graph: states, extras, parameters, then computed values
  size_t extras_ = 0;
  std::vector<Value> values_;
  std::vector<std::pair<size_t, at::Tensor>> constants_;
  std::vector<Operation> operations_;
  std::vector<size_t> outputs_;
};

}  // namespace tw::layer_parallel
