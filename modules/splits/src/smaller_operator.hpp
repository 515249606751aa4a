// SPDX-License-Identifier: Apache-2.0
// Experiments with large tensors take long and show nothing that smaller ones do not show.
#pragma once
#include <optional>
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// An operator alone, with some sizes replaced by smaller ones wherever they occur: in its inputs, arguments and outputs.
struct SmallerOperator {
  graph::Graph graph;  ///< of one node
  std::vector<at::Tensor> inputs;
  GroupCounts groups;  ///< for its sizes

  Subject subject(int64_t rows) const { return {.graph = graph, .node = 0, .rows = rows, .inputs = inputs}; }
};

/// Replaces each size of 32 or more in turn, if it is a multiple of `ranks`. The smaller one can be divided by the ranks in the same groups. A size
/// stays if the operator fails without it, or if outputs have other sizes than those replaced alike. Null: all sizes stay, or an argument is a large
/// number that is no size.
std::optional<SmallerOperator> smaller_operator(const Subject& subject, int ranks, const GroupCounts& groups);

/// Replaces the arguments in splits of `smaller`, which are some of its size_variants(), by those of the operator itself.
void restore_arguments(std::vector<OperatorSplit>& splits, const graph::Node& smaller, const graph::Node& original, int ranks);

}  // namespace tw::splits
