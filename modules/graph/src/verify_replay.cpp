// SPDX-License-Identifier: Apache-2.0
#include "verify_replay.hpp"

#include <ATen/ops/allclose.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

#include "random.hpp"

namespace tw::graph {
namespace {

using torch::autograd::AccumulateGrad;

/// What autograd recorded for some outputs.
struct Recorded {
  std::set<const c10::TensorImpl*> leaves;
  std::string unsupported_node = {};  // a node that no operator makes
};

Recorded recorded_by(const std::vector<at::Tensor>& outputs) {
  Recorded found;
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next;
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) next.push_back(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!next.empty()) {
    torch::autograd::Node* const node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) {
      found.leaves.insert(leaf->variable.unsafeGetTensorImpl());
      continue;
    }
    const std::string name = node->name();
    if (name.find("CppNode") != std::string::npos) found.unsupported_node = concat("a custom gradient function, ", name);
    if (name.find("DifferentiableGraph") != std::string::npos) {
      found.unsupported_node =
          "operators that TorchScript's optimiser made after the module had run: capture the module before it runs, or as a graph::TorchScript";
    }
    if (!node->tensor_pre_hooks().empty() || !node->pre_hooks().empty() || !node->post_hooks().empty()) {
      found.unsupported_node = concat("a hook at the gradient of ", name);
    }
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid()) next.push_back(edge.function.get());
    }
  }
  return found;
}

/// Equal up to rounding errors, of which a deep module makes hundreds: operators may divide their work among threads differently.
bool agree(const at::Tensor& one, const at::Tensor& other) {
  if (one.scalar_type() != other.scalar_type() || one.sizes() != other.sizes()) return false;
  const double tolerance = one.scalar_type() == at::kDouble ? 1e-12 : 1e-4;  // thousands of rounding errors
  const double largest = one.numel() == 0 ? 0 : one.detach().to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
  return at::allclose(one.detach().to(at::kDouble), other.detach().to(at::kDouble), tolerance, tolerance * largest, true);
}

/// Runs `graph` on `inputs` with the module's tensors, but changes none of them.
struct Replay {
  std::map<std::string, at::Tensor> tensors;  // after the run
  std::vector<at::Tensor> outputs;
  bool is_random = false;

  Replay(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs) {
    for (const NamedTensor& each : module.parameters) tensors[each.name] = each.tensor;
    for (const NamedTensor& each : module.buffers) tensors[each.name] = each.tensor.detach().clone();
    const RestoreOnExit kept(module.changing);
    const DryRun dry;
    const Interpreter interpreter(graph, [&](const std::string& name) { return tensors.at(name); });
    is_random = interpreter.is_random();
    outputs = interpreter.run(inputs, {.rows = inputs[0].size(0)});
  }
};

/// A run of the module.
struct Probe {
  std::vector<at::Tensor> buffers;  // after it
  Run run;

  Probe(const Subject& module, const std::vector<at::Tensor>& inputs) : run(run_of(module, inputs, &buffers)) {}
};

constexpr const char* past_operators = "the module reads or writes numbers without operators, such as by accessor() or data_ptr()";
constexpr const char* kept_numbers = "the module keeps values computed from its parameters or buffers, such as weights that train(false) fuses";

void expect_equal(const Subject& module, const Probe& probe, const Replay& replay, const char* reason) {
  for (size_t i = 0; i < replay.outputs.size(); ++i) {
    if (agree(probe.run.outputs[i], replay.outputs[i])) continue;
    throw Error(concat("output ", i, " of the module differs from the result of the operators that it calls: ", reason));
  }
  for (size_t i = 0; i < module.buffers.size(); ++i) {
    const std::string& name = module.buffers[i].name;
    if (agree(probe.buffers[i], replay.tensors.at(name))) continue;
    throw Error(concat("buffer '", name, "' differs from the result of the operators that the module calls: ", reason));
  }
}

/// @param run calls the same operators as the graph.
void expect_same_constants(const Graph& graph, const Run& run, const Subject& module) {
  const std::vector<std::pair<int, at::Tensor>> now = [&] {
    try {
      return graph_of(run, module).constants;
    } catch (const Error&) {
      return graph.constants;  // there is no graph to compare; outputs are compared anyway
    }
  }();
  for (size_t i = 0; i < graph.constants.size() && graph.constants.size() == now.size(); ++i) {
    const at::Tensor& constant = graph.constants[i].second;
    if (agree(constant, now[i].second)) continue;
    throw Error(concat("a tensor of shape ", constant.sizes(), " is neither a parameter nor a buffer, but changes with them: ", kept_numbers,
                       "; compute it in forward(), or register it as a buffer"));
  }
}

void expect_supported(const Recorded& recorded) {
  if (recorded.unsupported_node.empty()) return;
  throw Error(concat("the module's gradients pass through something that a graph of operators cannot hold: ", recorded.unsupported_node));
}

}  // namespace

void expect_supported_gradients(const Run& run) { expect_supported(recorded_by(run.outputs)); }

void verify_replay(const Graph& graph, const Run& run, const Subject& module, const std::vector<at::Tensor>& inputs) {
  const Replay replay(graph, module, inputs);
  const Recorded theirs = recorded_by(run.outputs);
  const Recorded ours = recorded_by(replay.outputs);
  expect_supported(theirs);
  for (const NamedTensor& each : module.parameters) {
    const auto* leaf = each.tensor.unsafeGetTensorImpl();
    if (theirs.leaves.contains(leaf) == ours.leaves.contains(leaf)) continue;
    throw Error(concat("parameter '", each.name, "' gets ", theirs.leaves.contains(leaf) ? "a" : "no", " gradient from the module, but ",
                       theirs.leaves.contains(leaf) ? "none" : "one", " from the operators that the module calls"));
  }
  if (!replay.is_random) expect_equal(module, Probe(module, inputs), replay, past_operators);
}

void expect_same_numbers(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs) {
  const Replay replay(graph, module, inputs);
  if (!replay.is_random) expect_equal(module, Probe(module, inputs), replay, past_operators);
}

void expect_follows_tensors(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs) {
  std::optional<Probe> probe;
  std::optional<Replay> replay;
  try {
    probe.emplace(module, inputs);
    replay.emplace(graph, module, inputs);
  } catch (const std::exception&) {
    return;  // the module rejects such numbers, or an answer that it branches on differs
  }
  expect_same_constants(graph, probe->run, module);
  if (!replay->is_random) expect_equal(module, *probe, *replay, kept_numbers);
}

}  // namespace tw::graph
