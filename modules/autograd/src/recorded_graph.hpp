// SPDX-License-Identifier: Apache-2.0
// The part of autograd's graph that one run of a function has made.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace tw {

/// A new node, by whichever pointer this LibTorch has for them.
template <class T, class Pointer = decltype(torch::autograd::Edge::function), class... Arguments>
Pointer make_graph_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
  }
}

/// Tells nodes that this thread has made since from all others.
class NodesMadeSince {
 public:
  NodesMadeSince();
  bool have(const torch::autograd::Node& node) const;

 private:
  uint64_t thread_;
  uint64_t sequence_;
};

/// By tensor, where its gradient goes; invalid for those that need none.
torch::autograd::edge_list gradient_edges(const std::vector<at::Tensor>& tensors);

/// Where gradients leave the nodes of `nodes` for others that are there anyway, and for leaves; each once.
torch::autograd::edge_list borders_of(const torch::autograd::edge_list& roots, const NodesMadeSince& nodes);

/// Takes leaves out of `borders` that nothing else refers to: a graph that is gone made them for itself. @return how many there were
size_t remove_private_leaves(torch::autograd::edge_list& borders);

/// While it lives, what goes from `roots` to `borders` ends at gathering nodes instead, so that a backward pass from the ones to the others touches
/// nothing else.
class CutGraph {
 public:
  /// @param private_leaves how many leaves there are that are not among `borders`
  /// @throws ContractError if there are more or fewer of them, or if not all borders can be reached
  CutGraph(torch::autograd::edge_list roots, const torch::autograd::edge_list& borders, size_t private_leaves);
  ~CutGraph();
  CutGraph(const CutGraph&) = delete;
  CutGraph& operator=(const CutGraph&) = delete;

  /// Where gradients of roots begin; a root that is a border ends there too.
  const torch::autograd::edge_list& roots() const noexcept { return roots_; }
  /// In place of the borders.
  const torch::autograd::edge_list& ends() const noexcept { return ends_; }

 private:
  struct Cut {
    decltype(torch::autograd::Edge::function) node;  // whose edge it is; kept, for the engine frees hidden ones
    torch::autograd::Edge* place;
    torch::autograd::Edge edge;  // that was there
  };

  torch::autograd::edge_list roots_;
  torch::autograd::edge_list ends_;
  std::vector<Cut> cut_;

  void put_back() noexcept;
};

}  // namespace tw
