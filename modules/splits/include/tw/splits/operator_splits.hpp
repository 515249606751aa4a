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
  size_t element = 0;  ///< index in the argument, if it is a list of sizes; otherwise 0
  bool operator==(const SizePlace&) const = default;
};

/// How ranks compute an operator together. Each rank runs the operator on its parts of the inputs, without communication.
struct OperatorSplit {
  std::vector<Placement> inputs = {};  ///< in the order of graph::Node::inputs()
  /// For each input, whether a rank's backward pass computes only a summand of the input's cotangent (the gradient of the loss by it), so that the
  /// ranks' results must be added up. Only for whole inputs. The cotangent of a split input is split alike; that of a partial input is whole.
  std::vector<bool> has_partial_cotangent = {};
  std::vector<Placement> outputs = {};        ///< of the outputs that are used (not -1 in graph::Node::outputs), in that order
  std::vector<SizePlace> divided_sizes = {};  ///< sizes among the arguments that are divided by the number of ranks
  bool operator==(const OperatorSplit&) const = default;
};

/// The arguments of a node, with some sizes divided by the number of ranks.
std::vector<graph::Argument> divided_arguments(const graph::Node& node, const std::vector<SizePlace>& divided, int ranks);

/// For each size of a dimension, up to four numbers of groups to try (see Placement), none of them 1.
using GroupCounts = std::map<int64_t, std::vector<int64_t>>;
/// The numbers of groups that shapes before and after views and slices in `graph` suggest.
GroupCounts group_counts(const graph::Graph& graph);

/// An operator with inputs for experiments.
struct Subject {
  const graph::Graph& graph;
  int node = 0;
  int64_t rows = 0;  ///< of the batch
  /// A tensor for each input, with its shape and dtype. Floating-point numbers are not used: experiments draw their own. One trial uses the integers
  /// and flags as they are; the others shuffle, negate or redraw them.
  std::vector<at::Tensor> inputs = {};
};

/// Why an operator stays whole, decided without running it; empty: it can be tried. Examples: it draws random numbers, it changes a tensor in place,
/// or it is a user's own operator, which may read out of bounds if sizes or dtypes are not those that it expects.
std::string reason_to_stay_whole(const graph::Graph& graph, int node);

struct OperatorSplits {
  std::vector<OperatorSplit> splits = {};
  std::string reason = {};  ///< why there are none
};

/// The splits of an operator over `ranks` ranks, with at least one input that is not whole. Dimensions that contain rows of the batch stay whole.
/// Runs the operator in float64, on random numbers of five kinds: of magnitudes 1, 1e-30 and 1e30, positive ones, and some that are zero or NaN. It
/// must work, and show something, on two kinds at least. For each placement of the inputs, up to 16 choices of sizes to divide are tried; the first
/// one that fits is returned. None if inputs and outputs would take more than 256 MiB in float64, or if there are more than 1000 combinations of
/// placements and sizes, also where inputs of equal shape and dtype have the same placement. Local and deterministic.
OperatorSplits splits_of(const Subject& subject, int ranks, const GroupCounts& groups);

}  // namespace tw::splits
