// SPDX-License-Identifier: Apache-2.0
// An operator of a graph, run alone.
#pragma once
#include <tw/graph/graph.hpp>
#include <tw/graph/interpreter.hpp>
#include <vector>

namespace tw::splits {

/// A graph of one node. Its inputs are those of the node, in the order of graph::Node::inputs(); a value that occurs twice is two inputs.
graph::Graph graph_of_node(const graph::Graph& graph, const graph::Node& node);

class OperatorRun {
 public:
  /// @param node of `graph`; its arguments may differ in sizes
  OperatorRun(const graph::Graph& graph, const graph::Node& node);

  /// @return the node's outputs, without those that nothing uses
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs, int64_t rows) const;

 private:
  graph::Interpreter interpreter_;
};

}  // namespace tw::splits
