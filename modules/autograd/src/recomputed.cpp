// SPDX-License-Identifier: Apache-2.0
// Chen et al. 2016, arXiv 1604.06174.
//
// The first run is recorded. Its graph shows where gradients leave it (inputs, and whatever the function captured) and which outputs need one. A
// single node with these edges then replaces the graph. This takes no extra memory: the backward pass holds the graph of one segment anyway. The
// node's backward pass records a second run, cuts its graph where the first one's ended, and lets the engine run it. The node returns the gradients
// that arrive at the cuts.
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/autograd/recomputed.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "recorded_graph.hpp"

namespace tw::detail {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;

std::vector<uint32_t> versions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<uint32_t> versions;
  for (const at::Tensor& each : tensors) versions.push_back(each.defined() && !each.is_inference() ? each._version() : 0);
  return versions;
}

/// Index of the first tensor that has changed since; the number of tensors if none has.
size_t first_changed(const std::vector<at::Tensor>& tensors, const std::vector<uint32_t>& versions) {
  const std::vector<uint32_t> now = versions_of(tensors);
  return static_cast<size_t>(std::mismatch(now.begin(), now.end(), versions.begin()).first - now.begin());
}

/// The default generators, and those of the tensors' devices.
Generators generators_for(const std::vector<at::Tensor>& tensors) {
  Generators generators = default_generators();
  std::set<std::pair<at::DeviceType, c10::DeviceIndex>> others;
  for (const at::Tensor& each : tensors) {
    if (each.defined() && !each.is_cpu() && !each.is_meta()) others.emplace(each.device().type(), each.device().index());
  }
  for (const auto& [type, index] : others) {
    const at::Generator& generator = at::globalContext().defaultGenerator({type, index});
    if (std::find(generators.begin(), generators.end(), generator) == generators.end()) generators.push_back(generator);
  }
  return generators;
}

/// Whether the generators' states are equal; all are byte tensors on the host.
bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) {
    return x.nbytes() == y.nbytes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  });
}

/// The random state that the second run repeats.
class Draws {
 public:
  explicit Draws(Generators generators) : generators_(std::move(generators)), states_(states_of(generators_)) {}

  /// Call it after the first run. Drops the states if that run has drawn no numbers.
  void end() {
    if (equal(states_of(generators_), states_)) states_.clear();
  }

  /// For its lifetime, resets the generators to their states before the first run.
  class Again {
   public:
    explicit Again(const Draws& draws) : generators_(draws.generators_), before_(draws.states_.empty() ? draws.states_ : states_of(generators_)) {
      set_states(generators_, draws.states_);
    }
    ~Again() { set_states(generators_, before_); }
    Again(const Again&) = delete;
    Again& operator=(const Again&) = delete;

   private:
    const Generators& generators_;
    std::vector<at::Tensor> before_;
  };

 private:
  Generators generators_;
  std::vector<at::Tensor> states_;
};

/// The properties that both runs must share.
struct OutputKind {
  explicit OutputKind(const at::Tensor& output) : defined(output.defined()) {
    if (!defined) return;
    shape = output.sizes().vec();
    dtype = output.scalar_type();
    device = output.device();
    needs_gradient = output.requires_grad();
  }

  std::string describe() const {
    if (!defined) return "undefined";
    return concat(dtype_name(dtype), ' ', shape_text(shape), " on ", device.str(), needs_gradient ? ", requires a gradient" : "");
  }

  bool operator==(const OutputKind&) const = default;

  bool defined;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  bool needs_gradient = false;
};

/// The state of the first run that a backward pass needs.
struct FirstRun {
  explicit FirstRun(Recomputation of) : call(std::move(of)), draws(generators_for(call.inputs)), versions(versions_of(call.inputs)) {}

  Recomputation call;
  AutocastState autocast = AutocastState::here();
  Draws draws;
  std::vector<uint32_t> versions;  // of the inputs
  std::vector<OutputKind> outputs;
  edge_list borders;                   // the node's edges; they end elsewhere while the node is part of another node's second run
  size_t private_leaves = 0;           // leaves that the function made for itself, in addition to `borders`
  std::vector<at::Tensor> parameters;  // leaves that receive gradients
  std::vector<uint32_t> parameter_versions;
};

/// Runs the function again, recorded.
std::vector<at::Tensor> second_run(const FirstRun& first) {
  const size_t changed = first_changed(first.call.inputs, first.versions);
  TW_EXPECTS(changed == first.versions.size(), "tensor ", changed,
             " of the inputs of a recomputed function was changed in place after its first run");
  TW_EXPECTS(first_changed(first.parameters, first.parameter_versions) == first.parameters.size(),
             "a parameter of a recomputed function was changed in place after its first run");
  const c10::InferenceMode no_inference(false);
  const c10::AutoGradMode gradients(true);
  const AutocastScope autocast(first.autocast);
  const Draws::Again draws(first.draws);
  const RestoreOnExit buffers(first.call.buffers);
  std::vector<at::Tensor> outputs = first.call.run();
  TW_EXPECTS(outputs.size() == first.outputs.size(), "the second run of a recomputed function has ", outputs.size(), " outputs, but the first had ",
             first.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputKind kind(outputs[i]);
    TW_EXPECTS(kind == first.outputs[i], "output ", i, " of the second run of a recomputed function is ", kind.describe(),
               ", but in the first run it was ", first.outputs[i].describe());
  }
  return outputs;
}

struct RecomputedNode : torch::autograd::Node {
  explicit RecomputedNode(std::shared_ptr<const FirstRun> run) : first(std::move(run)) {}

  std::string name() const override { return "tw::recomputed"; }

  void release_variables() override {
    const std::scoped_lock lock(mutex_);
    first.reset();
  }

  /// @param cotangents of the outputs that need a gradient
  variable_list apply(variable_list&& cotangents) override {
    const auto run = [this] {
      const std::scoped_lock lock(mutex_);
      return first;
    }();
    TW_EXPECTS(run != nullptr, "a second backward pass needs tensors that the first one freed: pass retain_graph = true to the first one");
    const bool create_graph = c10::GradMode::is_enabled();
    std::vector<size_t> wanted;
    for (size_t i = 0; i < num_outputs(); ++i) {
      if (task_should_compute_output(i)) wanted.push_back(i);
    }
    variable_list gradients(num_outputs());
    edge_list roots = gradient_edges(second_run(*run));
    std::erase_if(roots, [](const torch::autograd::Edge& edge) { return !edge.is_valid(); });
    const CutGraph graph(std::move(roots), run->borders, run->private_leaves);
    edge_list from, to;
    variable_list arriving;
    for (size_t i = 0; i < cotangents.size(); ++i) {
      if (!cotangents[i].defined()) continue;
      from.push_back(graph.roots()[i]);
      arriving.push_back(std::move(cotangents[i]));
    }
    for (const size_t i : wanted) to.push_back(graph.ends()[i]);
    if (from.empty() || to.empty()) return gradients;
    variable_list leaving = torch::autograd::Engine::get_default_engine().execute(from, arriving, create_graph, create_graph, false, to);
    for (size_t i = 0; i < wanted.size(); ++i) gradients[wanted[i]] = std::move(leaving[i]);
    return gradients;
  }

  std::shared_ptr<const FirstRun> first;
};

/// The leaves that accumulate gradients at these edges.
std::vector<at::Tensor> leaves_at(const edge_list& edges) {
  std::vector<at::Tensor> leaves;
  for (const torch::autograd::Edge& each : edges) {
    if (const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(each.function.get())) leaves.push_back(leaf->variable);
  }
  return leaves;
}

}  // namespace

std::vector<at::Tensor> recompute_later(Recomputation again, const std::function<std::vector<at::Tensor>()>& first) {
  if (!c10::GradMode::is_enabled()) return first();
  const auto run = std::make_shared<FirstRun>(std::move(again));
  const NodesMadeSince nodes;
  std::vector<at::Tensor> outputs;
  {
    const AutocastScope autocast(run->autocast);
    outputs = first();
  }
  edge_list roots = gradient_edges(outputs);
  if (std::none_of(roots.begin(), roots.end(), [](const torch::autograd::Edge& edge) { return edge.is_valid(); })) return outputs;
  const size_t changed = first_changed(run->call.inputs, run->versions);
  TW_EXPECTS(changed == run->versions.size(), "a recomputed function has changed tensor ", changed,
             " of its inputs in place, but its second run needs the original values: change a clone instead");
  run->draws.end();
  run->outputs = std::vector<OutputKind>(outputs.begin(), outputs.end());
  run->borders = borders_of(roots, nodes);
  roots.clear();
  for (at::Tensor& each : outputs) {
    if (each.defined() && each.requires_grad()) each = each.detach();  // the last detach() releases the graph
  }
  run->private_leaves = remove_private_leaves(run->borders);
  run->parameters = leaves_at(run->borders);
  run->parameter_versions = versions_of(run->parameters);
  const auto node = make_graph_node<RecomputedNode>(run);
  node->set_next_edges(edge_list(run->borders));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (run->outputs[i].needs_gradient) torch::autograd::set_history(outputs[i], node);
  }
  return outputs;
}

}  // namespace tw::detail
