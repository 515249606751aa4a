// SPDX-License-Identifier: Apache-2.0
// A graph for ranks that compute it together. Pure.
#pragma once
#include <string>
#include <tw/graph/graph.hpp>
#include <vector>

#include "choice.hpp"

namespace tw::splits {

/// A communication in a graph of parts.
struct Communication {
  std::string op;     ///< such as "torchweave::gather_from_ranks"
  std::string value;  ///< such as "%12" or a parameter's name, in the whole graph
  double bytes = 0;   ///< of the whole value
};

struct GraphOfParts {
  graph::Graph graph;
  std::vector<Communication> communications = {};
};

/// Writes the graph that each rank runs on its parts: the operators of `problem`'s graph by the splits of `choice`, and between them the operators of
/// tensor_parallel that communicate. The graph is the same on all ranks. Its communicator is an object "ranks[P]" without a value, see
/// graph::replace_objects().
GraphOfParts graph_of_parts(const ChoiceProblem& problem, const Choice& choice, int ranks);

}  // namespace tw::splits
