// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// Splits and times of all operators of a graph. Equal operators are tried once. If an operator is large, a smaller one is tried, see
/// smaller_operator().
class Discovery {
 public:
  /// @param ranks number of ranks. @param is_timed whether operators are timed
  Discovery(int ranks, bool is_timed) : ranks_(ranks), is_timed_(is_timed) {}

  struct Found {
    std::vector<std::vector<OperatorSplit>> splits = {};  // by node
    std::vector<double> seconds = {};                     // by node: forward and backward, for the rows of the example; 0: not timed
    std::vector<std::string> reasons = {};                // by node: why it has no splits; may be empty
    std::vector<std::string> keys = {};                   // by node: in Discovery::known_; empty: not tried
    std::vector<at::Tensor> integers = {};                // by value: indices, flags and the like; undefined: floating-point
    int64_t rows = 0;                                     // of experiments
  };
  /// @param bind, example as in split_graphs()
  Found operator()(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind, const std::vector<at::Tensor>& example);

  /// Tries the chosen splits with the operators' own sizes, if only smaller ones were tried. An operator for which one fails has only splits of its
  /// own sizes from then on, so call operator() again. @param chosen by node: an index in `found.splits`, or -1 @return whether all chosen splits
  /// hold
  bool confirm(const graph::Graph& graph, const Found& found, const std::vector<int>& chosen);

 private:
  struct Known {
    OperatorSplits found = {};
    double seconds = 0;
    std::map<size_t, std::map<int64_t, int64_t>> unconfirmed = {};  // by split that was tried with smaller sizes only: what these replace
  };
  Known tried(const Subject& subject, const GroupCounts& groups) const;
  /// Whether a split holds with each size of the operator itself, one after the other, so that not all are large at once.
  bool holds(const OperatorSplit& split, const Subject& subject, const std::map<int64_t, int64_t>& replaced) const;

  int ranks_;
  bool is_timed_;
  std::map<std::string, Known> known_;  // by operator, arguments, shapes, and numbers that are not floating-point
};

}  // namespace tw::splits
