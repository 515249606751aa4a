// SPDX-License-Identifier: Apache-2.0
// What depends on what, through operators and through memory. Pure.
#pragma once
#include <functional>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// Where something that begins in some values and nodes comes to.
struct Reach {
  std::vector<bool> nodes;
  std::vector<bool> values;  ///< computed ones, and those that it begins in
};

/// Goes from what a node takes to what it gives, and from a change to all that lies in the same memory, before it as well: a view may show it later.
Reach reach_of(const Graph& graph, const std::function<bool(const Value&)>& begins_in, const std::function<bool(const Node&)>& begins_at);

/// Whether the operator looks at the memory of its first argument, and not only at the elements that this shows.
bool looks_past_views(const Node& node);

/// Says of each value and node whether it depends on the batch.
void mark_batch(Graph& graph);

/// Has values of `graph` share memory that do in `other`, too: a graph of the same nodes for another number of rows, which may make a view of what is
/// a copy for others.
void share_memory(Graph& graph, const Graph& other);

/// Without some nodes, without those that do not see the batch and whose results nobody takes, and without the values that none of the others has.
Graph without(const Graph& graph, std::vector<bool> dropped);

}  // namespace tw::graph
