// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// Splits and times of all operators of a graph. Equal operators are tried once.
class Discovery {
 public:
  /// @param ranks number of ranks. @param is_timed whether operators are timed
  Discovery(int ranks, bool is_timed) : ranks_(ranks), is_timed_(is_timed) {}

  struct Found {
    std::vector<std::vector<OperatorSplit>> splits;  // by node
    std::vector<double> seconds;                     // by node: forward and backward, for the rows of the example; 0: not timed
    std::vector<std::string> reasons;                // by node: why it has no splits; may be empty
  };
  /// @param bind, example as in split_graphs()
  Found operator()(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind, const std::vector<at::Tensor>& example);

 private:
  struct Known {
    OperatorSplits found;
    double seconds = 0;
  };
  int ranks_;
  bool is_timed_;
  std::map<std::string, Known> known_;  // by operator, arguments, shapes, and numbers that are not floating-point
};

}  // namespace tw::splits
