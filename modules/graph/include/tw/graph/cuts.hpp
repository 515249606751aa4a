// SPDX-License-Identifier: Apache-2.0
// Which nodes can be torn apart, and what crosses the cuts. Pure.
#pragma once
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

/// The smallest pieces that stages are made of, each a range of nodes in the graph's order without those that depend on no input. A cut between two
/// of them is crossed by rows of the batch only, in whatever dimension, by nothing that is changed in place on the other side, and no buffer that a
/// pass changes is used on both sides.
///
/// Nodes that depend on no input, such as a transposed weight, belong to no unit: each stage that needs one computes it. Those that change a buffer
/// are an exception, and belong to the unit after them, or the last one.
std::vector<std::vector<int>> units_of(const Graph& graph);

/// Some nodes of a graph, and what goes in and out.
struct Piece {
  std::vector<int> nodes;    ///< in the graph's order, what depends on no input included
  std::vector<int> inputs;   ///< values of the batch that it takes from outside, ascending
  std::vector<int> outputs;  ///< values of the batch that others take or that are the graph's outputs, ascending
  std::vector<int> tensors;  ///< parameters and buffers in use, ascending
};

/// @param groups of nodes, such as units_of(): each node of the batch in one of them
std::vector<Piece> pieces_of(const Graph& graph, const std::vector<std::vector<int>>& groups);

/// Stages of `units`, which hand on to the next what any later one needs. The inputs of the first and the outputs of the last are the graph's. Over a
/// cut goes the same, in the same order, whatever other cuts there are: a stage may be cut into further ones.
/// @param stage_of for each unit, from 0 on. @param stages at least; further ones hand on. @throws ContractError naming two stages when one takes
/// what a later one computes
std::vector<Piece> stages_of(const Graph& graph, const std::vector<std::vector<int>>& units, const std::vector<int>& stage_of, int stages = 1);

}  // namespace tw::graph
