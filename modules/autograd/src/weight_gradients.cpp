// SPDX-License-Identifier: Apache-2.0
// The call of an operator is recorded as a separate graph, whose leaves are copies of the operator's tensors. A single node replaces it in the
// caller's graph. The node's backward pass lets the engine run the call's graph to the inputs' copies only, and keeps graph and cotangent.
// accumulate() runs the same graph to the weights' copies. LibTorch's nodes skip gradients that are not requested.
#include <ATen/autocast_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <deque>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/weight_gradients.hpp>
#include <utility>

#include "recorded_graph.hpp"

namespace tw {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::variable_list;

thread_local WeightGradients* recording = nullptr;

/// A list of tensors in which each one that requires a gradient is replaced by a new leaf that shares its memory.
class Copies {
 public:
  explicit Copies(const std::vector<at::Tensor>& tensors) : all_(tensors) {
    for (at::Tensor& each : all_) {
      if (!each.defined() || !each.requires_grad()) continue;
      to_.push_back(torch::autograd::impl::gradient_edge(each));
      each = each.detach().requires_grad_();
      from_.push_back(torch::autograd::impl::gradient_edge(each));
    }
  }
  const std::vector<at::Tensor>& all() const noexcept { return all_; }
  /// For each copy: the edge where its gradient arrives.
  const edge_list& from() const noexcept { return from_; }
  /// For each copy: the edge to which the gradient of the original tensor goes.
  const edge_list& to() const noexcept { return to_; }

 private:
  std::vector<at::Tensor> all_;
  edge_list from_;
  edge_list to_;
};

/// Disables autocast's cache during its lifetime; otherwise autocast would keep a cast of each copy.
class NoCachedCasts {
 public:
  NoCachedCasts() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoCachedCasts() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCachedCasts(const NoCachedCasts&) = delete;
  NoCachedCasts& operator=(const NoCachedCasts&) = delete;

 private:
  bool before_ = at::autocast::is_autocast_cache_enabled();
};

variable_list run(const Edge& root, const at::Tensor& cotangent, bool keep_graph, const edge_list& ends) {
  return torch::autograd::Engine::get_default_engine().execute({root}, {cotangent}, keep_graph, false, false, ends);
}

/// The recorded call of an operator.
struct Call {
  Edge root;          // of the result
  edge_list inputs;   // the ends at the inputs' copies
  edge_list weights;  // the ends at the weights' copies
  edge_list to;       // where the weights' gradients go
};

/// The data from which the weights' gradients of a call are computed.
struct PostponedCall {
  Call call;
  at::Tensor cotangent;
};

/// Computes the weights' gradients of one call, and then starts the node of the next call.
struct WeightsNode : torch::autograd::Node {
  /// @param next may be invalid
  WeightsNode(PostponedCall postponed, Edge next)
      : Node(/*sequence_nr=*/0), postponed_(std::move(postponed)) {  // 0: gradients are added before the next call makes its own
    edge_list edges = postponed_.call.to;
    edges.push_back(std::move(next));
    set_next_edges(std::move(edges));
    add_input_metadata(at::zeros({}));
  }

  std::string name() const override { return "tw::weight_gradients"; }

  variable_list apply(variable_list&& /*cotangents*/) override {
    const PostponedCall postponed = std::exchange(postponed_, {});
    variable_list gradients = run(postponed.call.root, postponed.cotangent, false, postponed.call.weights);
    gradients.emplace_back();  // for the next node
    return gradients;
  }

  PostponedCall postponed_;
};

/// Stands for an operator's call in the caller's graph.
struct InputsNode : torch::autograd::Node {
  InputsNode(Call call, std::shared_ptr<std::deque<PostponedCall>> postponed) : call_(std::move(call)), postponed_(std::move(postponed)) {}

  std::string name() const override { return "tw::input_gradients"; }
  void release_variables() override { call_ = {}; }

  variable_list apply(variable_list&& cotangents) override {
    variable_list gradients(call_.inputs.size());
    if (!cotangents[0].defined()) return gradients;
    edge_list ends;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (task_should_compute_output(i)) ends.push_back(call_.inputs[i]);
    }
    if (!ends.empty()) {
      variable_list made = run(call_.root, cotangents[0], true, ends);
      for (size_t i = gradients.size(); i-- > 0;) {
        if (!task_should_compute_output(i)) continue;
        gradients[i] = std::move(made.back());
        made.pop_back();
      }
    }
    postponed_->push_back({call_, std::move(cotangents[0])});
    return gradients;
  }

  Call call_;
  std::shared_ptr<std::deque<PostponedCall>> postponed_;
};

}  // namespace

struct WeightGradients::Kept {
  std::deque<PostponedCall> calls;
};

WeightGradients::WeightGradients() : kept_(std::make_shared<Kept>()) {}

at::Tensor WeightGradients::record(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights, const Operator& op) {
  if (!c10::GradMode::is_enabled()) return op(inputs, weights);
  const Copies of_weights(weights);
  if (of_weights.to().empty()) return op(inputs, weights);
  const Copies of_inputs(inputs);
  at::Tensor result = [&] {
    const NoCachedCasts no_cache;
    return op(of_inputs.all(), of_weights.all());
  }();
  Call call{.root = torch::autograd::impl::gradient_edge(result), .inputs = of_inputs.from(), .weights = of_weights.from(), .to = of_weights.to()};
  result = result.detach();
  const auto node = make_graph_node<InputsNode>(std::move(call), std::shared_ptr<std::deque<PostponedCall>>(kept_, &kept_->calls));
  node->set_next_edges(edge_list(of_inputs.to()));
  torch::autograd::set_history(result, node);
  return result;
}

void WeightGradients::accumulate() {
  const AutocastScope plain(AutocastState::here().off());
  while (!empty()) {  // a weight may be the result of another call
    Edge next;
    for (auto& calls = kept_->calls; !calls.empty(); calls.pop_back()) {
      next = Edge(make_graph_node<WeightsNode>(std::move(calls.back()), std::move(next)), 0);
    }
    torch::autograd::Engine::get_default_engine().execute({next}, {at::zeros({})}, false, false, true);
  }
}

bool WeightGradients::empty() const noexcept { return kept_->calls.empty(); }

WeightGradients::Recording::Recording(WeightGradients& gradients) : before_(std::exchange(recording, &gradients)) {}
WeightGradients::Recording::~Recording() { recording = before_; }
WeightGradients* WeightGradients::here() noexcept { return recording; }

}  // namespace tw
