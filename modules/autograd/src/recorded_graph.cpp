// SPDX-License-Identifier: Apache-2.0
#include "recorded_graph.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tw {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;

const torch::autograd::AccumulateGrad* as_leaf(const Node& node) { return dynamic_cast<const torch::autograd::AccumulateGrad*>(&node); }

/// Depth first from the roots, each node once. For each valid edge, `enters(edge, node)` with the node it belongs to returns whether to follow it.
template <class Enters>
void walk(edge_list& roots, const Enters& enters) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> open;
  const auto follow = [&](edge_list& edges, Node* of, size_t first) {
    for (size_t i = first; i < edges.size(); ++i) {
      Node* const next = edges[i].function.get();
      if (next != nullptr && enters(edges[i], of) && seen.insert(next).second) open.push_back(next);
    }
  };
  follow(roots, nullptr, 0);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    follow(node->next_edges(), node, 0);
    // An in-place operation on a view: this node for the whole tensor hides the operator's node, which must have the same edges except the view's.
    while (const auto* whole = dynamic_cast<torch::autograd::CopySlices*>(node)) {
      node = whole->fn.get();
      if (node == nullptr) break;  // freed
      follow(node->next_edges(), node, 1);
    }
  }
}

/// A node where a gradient ends that the engine captures.
struct GatheringNode : Node {
  explicit GatheringNode(const torch::autograd::InputMetadata& of) { input_metadata_.emplace_back(of); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& /*gradients*/) override { return {}; }
};

}  // namespace

NodesMadeSince::NodesMadeSince() : thread_(at::RecordFunction::currentThreadId()), sequence_(at::sequence_number::peek()) {}

bool NodesMadeSince::have(const Node& node) const {
  return node.thread_id() == thread_ && node.sequence_nr() >= sequence_ && as_leaf(node) == nullptr;
}

edge_list gradient_edges(const std::vector<at::Tensor>& tensors) {
  edge_list edges;
  for (const at::Tensor& each : tensors) {
    edges.push_back(each.defined() && each.requires_grad() ? torch::autograd::impl::gradient_edge(each) : Edge());
  }
  return edges;
}

edge_list borders_of(const edge_list& roots, const NodesMadeSince& nodes) {
  edge_list borders;
  std::unordered_set<Edge> known;
  edge_list from = roots;
  walk(from, [&](const Edge& edge, const Node* /*of*/) {
    if (nodes.have(*edge.function)) return true;
    if (known.insert(edge).second) borders.push_back(edge);
    return false;
  });
  return borders;
}

size_t remove_private_leaves(edge_list& borders) {
  return std::erase_if(borders, [](const Edge& border) {
    const auto* const leaf = as_leaf(*border.function);
    return leaf != nullptr && leaf->variable.use_count() == 1;
  });
}

CutGraph::CutGraph(edge_list roots, const edge_list& borders, size_t private_leaves) : roots_(std::move(roots)) {
  std::unordered_map<Edge, size_t> places;
  for (const Edge& border : borders) {
    places.emplace(border, places.size());
    ends_.emplace_back(make_graph_node<GatheringNode>(border.function->input_metadata(border.input_nr)), 0);
  }
  std::vector<bool> reached(borders.size());
  std::unordered_set<const Node*> others;
  walk(roots_, [&](Edge& edge, Node* of) {
    const auto found = places.find(edge);
    if (found == places.end()) {
      if (as_leaf(*edge.function) != nullptr) others.insert(edge.function.get());
      return true;
    }
    cut_.push_back({of == nullptr ? nullptr : of->getptr(), &edge, std::exchange(edge, ends_[found->second])});
    reached[found->second] = true;
    return false;
  });
  const bool all = std::find(reached.begin(), reached.end(), false) == reached.end();
  if (others.size() != private_leaves || !all) restore();
  TW_EXPECTS(others.size() == private_leaves, "the second run of a recomputed function depends on other tensors than the first: it has ",
             others.size(), " leaves of its own, expected ", private_leaves);
  TW_EXPECTS(all, "the second run of a recomputed function does not depend on all tensors that the first one depends on");
}

CutGraph::~CutGraph() { restore(); }

void CutGraph::restore() noexcept {
  for (Cut& each : cut_) *each.place = std::move(each.edge);
  cut_.clear();
}

}  // namespace tw
