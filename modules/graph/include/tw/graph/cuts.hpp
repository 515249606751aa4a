// SPDX-License-Identifier: Apache-2.0
// Where a graph can be cut, and which values cross the cuts. Pure.
#pragma once
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// Splits the graph into units, the smallest pieces of a pipeline stage. Each is a range of nodes in the graph's order, without those that depend on
/// no input of the graph. Only values with batch rows (in any dimension) cross a cut between units, and no later unit changes them in place. A buffer
/// that a pass changes is used by one unit only.
///
/// Nodes that depend on no input, such as a transposed weight, belong to no unit: each stage that needs one computes it. As an exception, a node that
/// changes a parameter or buffer, or has a Node::answer, belongs to the unit after it, or to the last one.
std::vector<std::vector<int>> units_of(const Graph& graph);

/// Some nodes of a graph, with their inputs and outputs.
struct Piece {
  std::vector<int> nodes;    ///< in the graph's order, including nodes that depend on no input
  std::vector<int> inputs;   ///< values of the batch (Value::of_batch) from outside the piece, ascending
  std::vector<int> outputs;  ///< values of the batch that other pieces use or that the graph outputs, ascending
  std::vector<int> tensors;  ///< parameters and buffers that the nodes use, ascending
};

/// Returns one piece per group. @param groups groups of nodes, such as units_of() returns; each node that depends on the batch is in one of them
std::vector<Piece> pieces_of(const Graph& graph, const std::vector<std::vector<int>>& groups);

/// Groups `units` into pipeline stages. Each stage passes on all values that any later stage needs. The first stage has the graph's inputs, the last
/// one the graph's outputs. The values that cross a cut, and their order, do not depend on the other cuts, so a stage may be divided further.
/// @param stage_of each unit's stage, from 0. @param stages minimum number of stages; surplus ones only pass values on. @throws ContractError naming
/// two stages if one uses values that a later one computes
std::vector<Piece> stages_of(const Graph& graph, const std::vector<std::vector<int>>& units, const std::vector<int>& stage_of, int stages = 1);

}  // namespace tw::graph
