// SPDX-License-Identifier: Apache-2.0
// Chooses a split for each operator of a graph. Pure.
#pragma once
#include <map>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/splits/operator_splits.hpp>
#include <tw/splits/split_options.hpp>
#include <vector>

namespace tw::splits {

struct ChoiceProblem {
  const graph::Graph& graph;
  std::vector<std::vector<OperatorSplit>> splits = {};  ///< by node
  std::vector<double> seconds = {};                     ///< by node: of the whole operator, forward and backward
  int64_t rows = 1;                                     ///< of a batch
  std::map<std::string, Placement> stored = {};         ///< how ranks hold parameters, by name, where that is decided already
};

/// What is minimised: first the one, then the other.
struct SplitCost {
  double first = 0;
  double second = 0;

  SplitCost& operator+=(const SplitCost& other) noexcept {
    first += other.first;
    second += other.second;
    return *this;
  }
  auto operator<=>(const SplitCost&) const = default;
};

struct Choice {
  std::vector<int> split_of_node = {};           ///< by node, an index in ChoiceProblem::splits; -1: the operator stays whole
  std::map<std::string, Placement> stored = {};  ///< how ranks hold the parameters that the graph uses
  SplitCost cost = {};
};

/// Processes nodes in order and keeps the best 256 of those partial choices that differ in the forms of values that are still needed. So the result
/// is exact if no more than these exist.
Choice choose(const ChoiceProblem& problem, const SplitOptions& options);

/// The cost of given splits, for comparison. @param split_of_node as in Choice
SplitCost cost_of(const ChoiceProblem& problem, const std::vector<int>& split_of_node, const SplitOptions& options);

}  // namespace tw::splits
