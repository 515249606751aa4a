// SPDX-License-Identifier: Apache-2.0
#include "faithful.hpp"

#include <ATen/ops/allclose.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/interpreter.hpp>

#include "random.hpp"

namespace tw::graph {
namespace {

using torch::autograd::AccumulateGrad;

/// What autograd recorded after some tensors.
struct Recorded {
  std::set<const c10::TensorImpl*> leaves;
  std::string stranger = {};  // what no operator makes
};

Recorded recorded_behind(const std::vector<at::Tensor>& outputs) {
  Recorded found;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) next.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) visit(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!next.empty()) {
    auto* node = next.back();
    next.pop_back();
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      found.leaves.insert(leaf->variable.unsafeGetTensorImpl());
      continue;
    }
    const std::string name = node->name();
    if (name.find("CppNode") != std::string::npos) found.stranger = concat("a gradient of the user's own, ", name);
    if (name.find("DifferentiableGraph") != std::string::npos) {
      found.stranger = "what TorchScript's optimiser made of a module that has run before: capture it before it runs, or as a graph::TorchScript";
    }
    if (!node->tensor_pre_hooks().empty() || !node->pre_hooks().empty() || !node->post_hooks().empty()) {
      found.stranger = concat("a hook at the gradient of ", name);
    }
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return found;
}

/// The same up to rounding errors, of which a deep module makes hundreds: operators may divide their work among threads in another way.
bool agree(const at::Tensor& one, const at::Tensor& other) {
  if (one.scalar_type() != other.scalar_type() || one.sizes() != other.sizes()) return false;
  const double tolerance = one.scalar_type() == at::kDouble ? 1e-12 : 1e-4;  // thousands of their rounding errors
  const double largest = one.numel() == 0 ? 0 : one.detach().to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
  return at::allclose(one.detach().to(at::kDouble), other.detach().to(at::kDouble), tolerance, tolerance * largest, true);
}

}  // namespace

void expect_faithful(const Graph& graph, const Run& run, const Probe& probe, const std::vector<NamedTensor>& parameters,
                     const std::vector<NamedTensor>& buffers) {
  std::map<std::string, at::Tensor> tensors;
  for (const NamedTensor& each : parameters) tensors[each.name] = each.tensor;
  for (const NamedTensor& each : buffers) tensors[each.name] = each.tensor.detach().clone();
  const Interpreter interpreter(graph, [&](const std::string& name) { return tensors.at(name); });
  const std::vector<at::Tensor> outputs = interpreter.run(probe.inputs, {.rows = probe.inputs[0].size(0)});

  const Recorded theirs = recorded_behind(run.outputs);
  const Recorded ours = recorded_behind(outputs);
  if (!theirs.stranger.empty()) throw Error(concat("the module's gradients go through what no graph of operators has: ", theirs.stranger));
  for (const NamedTensor& each : parameters) {
    const auto* leaf = each.tensor.unsafeGetTensorImpl();
    if (theirs.leaves.contains(leaf) == ours.leaves.contains(leaf)) continue;
    throw Error(concat("parameter '", each.name, "' gets ", theirs.leaves.contains(leaf) ? "a" : "no", " gradient from the module, and ",
                       theirs.leaves.contains(leaf) ? "none" : "one", " from the operators that it calls"));
  }
  const bool repeats = !interpreter.is_random();
  for (size_t i = 0; repeats && i < outputs.size(); ++i) {
    if (agree(probe.outputs[i], outputs[i])) continue;
    throw Error(concat("output ", i,
                       " of the module is not what the operators make that it calls: it reads or writes numbers past them, as by "
                       "accessor() or data_ptr()"));
  }
  for (size_t i = 0; repeats && i < buffers.size(); ++i) {
    if (agree(probe.buffers[i], tensors.at(buffers[i].name))) continue;
    throw Error(concat("buffer '", buffers[i].name, "' is changed by no operator, as by accessor() or data_ptr()"));
  }
}

}  // namespace tw::graph
