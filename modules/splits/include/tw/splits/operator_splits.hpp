// SPDX-License-Identifier: Apache-2.0
// Finds by experiment how ranks can compute an operator together: the operator is run on random numbers, whole and by parts, forward and backward.
#pragma once
#include <map>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/splits/placement.hpp>
#include <vector>

namespace tw::splits {

/// A size among the arguments of an operator.
struct SizePlace {
  size_t argument = 0;
  size_t element = 0;  ///< of a list
  bool operator==(const SizePlace&) const = default;
};

/// How ranks compute an operator together. Each rank runs the operator on its parts of the inputs, without communication.
struct OperatorSplit {
  std::vector<Placement> inputs = {};  ///< in the order of graph::Node::inputs()
  /// By input: whether each rank computes only a summand of its cotangent. Only whole inputs may have such cotangents. The cotangent of a split input
  /// is split alike; that of a partial input is whole.
  std::vector<bool> has_partial_cotangent = {};
  std::vector<Placement> outputs = {};        ///< in the order of graph::Node::outputs
  std::vector<SizePlace> divided_sizes = {};  ///< sizes among the arguments that are divided by the number of ranks
  bool operator==(const OperatorSplit&) const = default;
};

/// The arguments of a node, with some sizes divided by the number of ranks.
std::vector<graph::Argument> divided_arguments(const graph::Node& node, const std::vector<SizePlace>& divided, int ranks);

/// For sizes of dimensions, the numbers of groups (see Placement) that views and slices in `graph` suggest, except 1.
using GroupCounts = std::map<int64_t, std::vector<int64_t>>;
GroupCounts group_counts(const graph::Graph& graph);

/// An operator with inputs for experiments.
struct Subject {
  const graph::Graph& graph;
  int node = 0;
  int64_t rows = 0;                     ///< of the batch
  std::vector<at::Tensor> inputs = {};  ///< by input: a tensor of its shape and dtype; of numbers that are not floating-point, one trial uses these
};

/// Why an operator is not divided, without an experiment: it draws random numbers, changes a tensor in place, is an operator of
/// a user (which may read memory of the sizes and dtypes alone that it knows), ... Empty: it can be tried.
std::string reason_to_stay_whole(const graph::Graph& graph, int node);

struct OperatorSplits {
  std::vector<OperatorSplit> splits = {};
  std::string reason = {};  ///< why there are none
};

/// The splits of an operator over `ranks` ranks, without the one in which everything is whole. Dimensions that contain rows of the batch stay whole.
/// Runs the operator in float64, on random numbers of five kinds: of magnitudes 1, 1e-30 and 1e30, positive ones, and some that are zero or NaN. It
/// must work on two kinds at least. Of several variants of its sizes that fit, the first one counts. Local and deterministic. None if inputs and
/// outputs take more than 256 MiB, or if there are more than 1000 combinations of placements.
OperatorSplits splits_of(const Subject& subject, int ranks, const GroupCounts& groups);

}  // namespace tw::splits
