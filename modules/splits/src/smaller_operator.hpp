// SPDX-License-Identifier: Apache-2.0
// Experiments with large tensors take long, and smaller ones mostly show the same.
#pragma once
#include <map>
#include <optional>
#include <tw/splits/operator_splits.hpp>
#include <vector>

namespace tw::splits {

/// An operator alone, with some sizes replaced by smaller ones wherever they occur: in its inputs, arguments and outputs.
struct SmallerOperator {
  graph::Graph graph;  ///< of one node
  std::vector<at::Tensor> inputs;
  GroupCounts groups;                        ///< for its sizes
  std::map<int64_t, int64_t> replaced = {};  ///< by size, the smaller one

  Subject subject(int64_t rows) const { return {.graph = graph, .node = 0, .rows = rows, .inputs = inputs}; }
};

/// Replaces each size of 32 or more in turn. The smaller one can be divided by the ranks in the same groups, or cannot be divided either. A size
/// stays if the operator fails without it, or if outputs have other sizes than those replaced alike. Null: all sizes stay, or an argument is a large
/// number that is no size.
std::optional<SmallerOperator> smaller_operator(const Subject& subject, int ranks, const GroupCounts& groups);

/// The operator with these replacements only.
SmallerOperator with_sizes(const Subject& subject, const GroupCounts& groups, const std::map<int64_t, int64_t>& replaced, int ranks);

}  // namespace tw::splits
