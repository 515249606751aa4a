// SPDX-License-Identifier: Apache-2.0
// Dependencies through operators and through memory. Pure.
#pragma once
#include <functional>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// Everything that depends on a set of values and nodes.
struct Reach {
  std::vector<bool> nodes;
  std::vector<bool> values;  ///< the computed ones, and the initial set
};

/// Follows a node's inputs to its outputs, and a change to everything in the same memory, even earlier values: a view may expose it later.
Reach reach_of(const Graph& graph, const std::function<bool(const Value&)>& begins_in, const std::function<bool(const Node&)>& begins_at);

/// Whether the operator reads its first argument's memory beyond the elements of that view.
bool looks_past_views(const Node& node);

/// Marks for each value and node whether it depends on the batch.
void mark_batch(Graph& graph);

/// Lets values of `graph` share memory if they do in `other`, a graph of the same nodes for another number of rows: a copy for one number of rows may
/// be a view for another.
void share_memory(Graph& graph, const Graph& other);

/// Removes the nodes in `dropped`, nodes that neither depend on the batch nor have a user, and values that no remaining node uses.
Graph without(const Graph& graph, std::vector<bool> dropped);

}  // namespace tw::graph
