// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/graph.hpp>

namespace tw::splits {

/// Replaces operators in place, such as add_(), by those that return a new tensor, such as add(), where nothing else sees the memory that they
/// change. Operators that ran without autograd stay: in place, they leave the history of gradients as it was.
graph::Graph functional(graph::Graph graph);

}  // namespace tw::splits
