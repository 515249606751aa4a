// SPDX-License-Identifier: Apache-2.0
#include "module_run.hpp"

#include <ATen/ops/alias.h>
#include <ATen/ops/equal.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <set>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <unordered_map>

#include "arguments.hpp"
#include "flow.hpp"

namespace tw::graph {
namespace {

/// @param rows, other_rows of the two graphs. @throws Error naming the first operator that differs
void expect_same_operators(const Graph& graph, int64_t rows, const Graph& other, int64_t other_rows) {
  if (graph.nodes.size() != other.nodes.size()) {
    const auto [here, there] = std::ranges::mismatch(graph.nodes, other.nodes, {}, &Node::op, &Node::op);
    const auto next = [&](const auto& node, const Graph& of) { return node == of.nodes.end() ? "missing" : node->op; };
    throw Error(concat("the module calls ", graph.nodes.size(), " operators for ", rows, " rows and ", other.nodes.size(), " for ", other_rows,
                       " rows; operator ", here - graph.nodes.begin(), " is ", next(here, graph), ", and in the second case ", next(there, other)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const Node& twin = other.nodes[i];
    const std::string where = concat("operator ", i, ", ", node.op);
    if (node.op != twin.op || node.overload != twin.overload || node.outputs != twin.outputs || node.arguments.size() != twin.arguments.size()) {
      throw Error(concat(where, ": for ", other_rows, " rows instead of ", rows,
                         ", the module calls another operator here, or passes other tensors: ", twin.op));
    }
    if (node.answer != twin.answer) throw Error(concat(where, ": it returns a different answer for ", other_rows, " rows than for ", rows));
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].sizes.size() != other.values[i].sizes.size()) {
      throw Error(concat("a tensor has a different number of dimensions for ", other_rows, " rows than for ", rows));
    }
  }
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    if (!at::equal(graph.constants[i].second, other.constants[i].second)) {
      throw Error(concat("a tensor of shape ", graph.constants[i].second.sizes(),
                         " that is neither an input, a parameter nor a buffer differs between two runs"));
    }
  }
}

/// For each value, whether it is an argument of an operator, or an input or output of the graph.
std::vector<bool> taken_values(const Graph& graph) {
  std::vector<bool> taken(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const int input : node.inputs()) taken[at(input)] = true;
  }
  for (const auto& list : {graph.inputs, graph.outputs}) {
    for (const int value : list) taken[at(value)] = true;
  }
  return taken;
}

/// Calls `with_argument` for each argument of each operator, and `with_size` for each size of each value. Errors about a value without users, such as
/// a workspace, are ignored. @throws Error that also names the operator
void for_each_size(const Graph& graph, const std::function<void(size_t node, size_t argument)>& with_argument,
                   const std::function<void(size_t value, size_t dimension)>& with_size) {
  const auto named = [&](int node, const std::string& what, bool matters, const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      if (!matters) return;
      throw Error(concat("operator ", node, ", ", graph.nodes[at(node)].op, what, ": ", error.what()));
    }
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (size_t k = 0; k < graph.nodes[i].arguments.size(); ++k) {
      named(static_cast<int>(i), concat(", argument ", k), true, [&] { with_argument(i, k); });
    }
  }
  const std::vector<int> producers = graph.producers();
  const std::vector<bool> taken = taken_values(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    for (size_t d = 0; d < graph.values[v].sizes.size(); ++d) {
      if (producers[v] < 0) with_size(v, d);
      if (producers[v] >= 0) named(producers[v], concat(", dimension ", d, " of its result"), taken[v], [&] { with_size(v, d); });
    }
  }
}

/// Maps tensors of another run of the same operators to those of this run.
class TensorsOf {
 public:
  void match(const c10::IValue& there, const c10::IValue& here) {
    if (there.isTensor() && here.isTensor()) here_of_[there.toTensor().unsafeGetTensorImpl()] = here.toTensor();
    if (!there.isTensorList() || !here.isTensorList()) return;
    const auto theirs = there.toTensorVector();
    const auto ours = here.toTensorVector();
    for (size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) here_of_[theirs[i].unsafeGetTensorImpl()] = ours[i];
  }

  /// A tensor of the module maps to itself.
  at::Tensor of(const at::Tensor& there) const {
    const auto found = here_of_.find(there.unsafeGetTensorImpl());
    return found == here_of_.end() ? there : found->second;
  }

  /// `here`, or the tensor of this run that corresponds to `there`, if both show the same elements.
  c10::IValue of(const c10::IValue& there, const c10::IValue& here) const {
    if (there.isTensor() && here.isTensor()) return meant(there.toTensor(), here.toTensor());
    if (!there.isTensorList() || !here.isTensorList()) return here;
    const auto theirs = there.toTensorVector();
    auto ours = here.toTensorVector();
    for (size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) ours[i] = meant(theirs[i], ours[i]);
    return ours;
  }

 private:
  at::Tensor meant(const at::Tensor& there, const at::Tensor& here) const {
    const auto found = here_of_.find(there.unsafeGetTensorImpl());
    if (found == here_of_.end() || !here.defined() || !found->second.defined()) return here;
    const at::Tensor& other = found->second;
    const bool shows_same = other.is_alias_of(here) && other.sizes() == here.sizes() && other.strides() == here.strides() &&
                            other.storage_offset() == here.storage_offset() && other.scalar_type() == here.scalar_type();
    return shows_same ? other : here;
  }

  std::unordered_map<const c10::TensorImpl*, at::Tensor> here_of_;
};

bool is_same(const c10::IValue& one, const c10::IValue& other) {
  return one.isTensor() && other.isTensor() && one.toTensor().defined() && one.toTensor().is_same(other.toTensor());
}

/// For an operator that returned one of its arguments: the corresponding argument, or a new tensor object for it if the other run has one.
c10::IValue result_of(const c10::IValue& result, const std::vector<c10::IValue>& arguments, const Call& call, const c10::IValue& there,
                      const Call& call_there) {
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (!is_same(result, arguments[k])) continue;
    return is_same(there, call_there.arguments[k]) ? call.arguments[k] : c10::IValue(at::alias(result.toTensor()));
  }
  return result;
}

}  // namespace

Subject::Subject(const Forward& run, std::vector<NamedTensor> all_parameters, std::vector<NamedTensor> all_buffers)
    : forward(run), parameters(without_aliases(std::move(all_parameters))), buffers(without_aliases(std::move(all_buffers))) {
  std::set<const c10::TensorImpl*> known;
  for (const NamedTensor& each : parameters) known.insert(each.tensor.unsafeGetTensorImpl());
  std::erase_if(buffers, [&](const NamedTensor& each) { return known.contains(each.tensor.unsafeGetTensorImpl()); });
}

std::vector<NamedTensor> Subject::tensors() const {
  std::vector<NamedTensor> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

bool Subject::has_values(const std::vector<at::Tensor>& example) const {
  const auto lacks_memory = [](const at::Tensor& each) { return each.is_meta(); };
  return std::ranges::none_of(example, lacks_memory) && std::ranges::none_of(tensors(), lacks_memory, &NamedTensor::tensor);
}

Run first_run_of(Subject& module, const std::vector<at::Tensor>& inputs) {
  const std::vector<NamedTensor>& parameters = module.parameters;
  const auto version_of = [](const NamedTensor& each) { return each.tensor.is_inference() ? 0 : each.tensor._version(); };
  std::vector<uint32_t> versions;
  std::vector<at::Tensor> before;
  for (const NamedTensor& each : parameters) {
    versions.push_back(version_of(each));
    before.push_back(each.tensor.variable_data().clone());
  }
  module.changing.clear();
  // Restore only these: others may have an owner that refuses in-place changes.
  const auto restored = c10::make_scope_exit([&] {
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (version_of(parameters[i]) != versions[i]) parameters[i].tensor.variable_data().copy_(before[i]);
    }
  });
  Run run = run_of(module, inputs);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (version_of(parameters[i]) != versions[i]) module.changing.push_back(parameters[i]);
  }
  return run;
}

Run run_of(const Subject& module, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>* changed) {
  const GeneratorGuard generator;
  const RestoreOnExit kept(module.buffers);
  const RestoreOnExit kept_parameters(module.changing);
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);  // TorchScript's optimiser would run other operators the second time
  Run made;
  for (const at::Tensor& each : inputs) made.inputs.push_back(each.clone());  // the module may change its inputs in place
  made.calls = recorded([&] { made.outputs = module.forward(made.inputs); }, module.opens);
  for (const NamedTensor& buffer : module.buffers) {
    if (changed != nullptr) changed->push_back(buffer.tensor.detach().clone());
  }
  return made;
}

Run aligned(Run run, const Run& full) {
  TensorsOf here;
  for (size_t i = 0; i < full.inputs.size(); ++i) here.match(full.inputs[i], run.inputs[i]);
  std::vector<Call> calls;
  size_t next = 0;
  for (const Call& there : full.calls) {
    const bool is_next = next < run.calls.size() && run.calls[next].name == there.name;
    if (!is_next && there.name.name != "aten::contiguous") return run;
    const auto skipped = [&]() -> Call {
      const at::Tensor same = here.of(there.arguments[0].toTensor());
      return {.name = there.name,
              .arguments = {same, there.arguments[1]},
              .results = {same},
              .with_gradient = there.with_gradient,
              .inside = there.inside};
    };
    Call call = is_next ? run.calls[next++] : skipped();
    const std::vector<c10::IValue> arguments = call.arguments;
    for (size_t i = 0; i < arguments.size(); ++i) call.arguments[i] = here.of(there.arguments.at(i), arguments[i]);
    for (size_t i = 0; i < call.results.size(); ++i) {
      call.results[i] = result_of(call.results[i], arguments, call, there.results.at(i), there);
      here.match(there.results.at(i), call.results[i]);
    }
    calls.push_back(std::move(call));
  }
  calls.insert(calls.end(), run.calls.begin() + static_cast<std::ptrdiff_t>(next), run.calls.end());
  run.calls = std::move(calls);
  for (size_t i = 0; i < std::min(run.outputs.size(), full.outputs.size()); ++i) {
    run.outputs[i] = here.of(c10::IValue(full.outputs[i]), c10::IValue(run.outputs[i])).toTensor();
  }
  return run;
}

Graph graph_of(const Run& run, const Subject& module) { return graph_of(run, module.parameters, module.buffers); }

Graph of_any_rows(Graph graph, int64_t rows, const Graph& other, int64_t other_rows) {
  expect_same_operators(graph, rows, other, other_rows);
  for_each_size(
      graph,
      [&](size_t i, size_t k) {
        Argument& argument = graph.nodes[i].arguments[k];
        argument = with_rows(argument, rows, other.nodes[i].arguments[k], other_rows);
      },
      [&](size_t v, size_t d) {
        Size& size = graph.values[v].sizes[d];
        size = with_rows(size.fixed, rows, other.values[v].sizes[d].fixed, other_rows);
      });
  for (size_t v = 0; v < graph.values.size(); ++v) graph.values[v].order = other.values[v].order;  // a single row reveals little about the order
  share_memory(graph, other);
  return graph;
}

void expect_fit(Graph& graph, int64_t rows, const Graph& other, int64_t other_rows) {
  expect_same_operators(graph, rows, other, other_rows);
  for_each_size(
      graph, [&](size_t i, size_t k) { expect_fit(graph.nodes[i].arguments[k], other_rows, other.nodes[i].arguments[k]); },
      [&](size_t v, size_t d) { expect_fit(graph.values[v].sizes[d], other_rows, other.values[v].sizes[d].fixed); });
  share_memory(graph, other);
}

}  // namespace tw::graph
