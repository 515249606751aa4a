// SPDX-License-Identifier: Apache-2.0
// The part of autograd's graph that one run of a function has made.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <tw/autograd/graph_node.hpp>
#include <vector>

namespace tw {

/// Distinguishes nodes that this thread has made since construction from all others.
class NodesMadeSince {
 public:
  NodesMadeSince();
  bool have(const torch::autograd::Node& node) const;

 private:
  uint64_t thread_;
  uint64_t sequence_;
};

/// For each tensor: the edge along which its gradient flows; invalid if it needs none.
torch::autograd::edge_list gradient_edges(const std::vector<at::Tensor>& tensors);

/// The edges by which gradients leave the nodes of `nodes`, to older nodes or to leaves; each once.
torch::autograd::edge_list borders_of(const torch::autograd::edge_list& roots, const NodesMadeSince& nodes);

/// Removes leaves from `borders` that nothing else refers to, because the function made them itself and its graph is released. @return number of
/// removed leaves
size_t remove_private_leaves(torch::autograd::edge_list& borders);

/// While it lives, edges from `roots` to `borders` end at gathering nodes instead. A backward pass from the roots to these nodes then touches nothing
/// else.
class CutGraph {
 public:
  /// @param private_leaves number of leaves that are not among `borders`
  /// @throws ContractError if their number differs, or if a border cannot be reached
  CutGraph(torch::autograd::edge_list roots, const torch::autograd::edge_list& borders, size_t private_leaves);
  ~CutGraph();
  CutGraph(const CutGraph&) = delete;
  CutGraph& operator=(const CutGraph&) = delete;

  /// The edges where gradients of the roots start; a root that is a border ends there too.
  const torch::autograd::edge_list& roots() const noexcept { return roots_; }
  /// The gathering nodes' edges, which replace the borders.
  const torch::autograd::edge_list& ends() const noexcept { return ends_; }

 private:
  struct Cut {
    decltype(torch::autograd::Edge::function) node;  // owner of the edge; kept alive because the engine frees hidden nodes
    torch::autograd::Edge* place;
    torch::autograd::Edge edge;  // the original one
  };

  torch::autograd::edge_list roots_;
  torch::autograd::edge_list ends_;
  std::vector<Cut> cut_;

  void restore() noexcept;
};

}  // namespace tw
