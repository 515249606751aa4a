// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/capture.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <unordered_map>

#include "arguments.hpp"
#include "recorder.hpp"

namespace tw::graph {
namespace {

/// Puts buffers and the generator back as they were.
class Unchanged {
 public:
  explicit Unchanged(const std::vector<NamedTensor>& buffers) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
    for (const NamedTensor& buffer : buffers) buffers_.emplace_back(buffer.tensor, buffer.tensor.detach().clone());
  }
  ~Unchanged() {
    const c10::AutoGradMode no_gradients(false);
    for (auto& [buffer, before] : buffers_) buffer.copy_(before);
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// One run of the module.
struct Run {
  int64_t rows = 0;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  std::vector<Call> calls;
};

Run run(const Forward& forward, const std::vector<NamedTensor>& buffers, std::vector<at::Tensor> inputs) {
  const Unchanged unchanged(buffers);
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);  // of TorchScript, which otherwise runs other operators the second time
  Run made;
  made.rows = inputs[0].size(0);
  made.inputs = std::move(inputs);
  made.calls = recorded([&] { made.outputs = forward(made.inputs); });
  return made;
}

std::string name_of(const c10::OperatorName& name) { return name.overload_name.empty() ? name.name : concat(name.name, '.', name.overload_name); }

/// How many rows come out must not depend on data.
void expect_shape(const c10::OperatorHandle& op, const Call& call) {
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return;
  if (call.name.name == "aten::index") {
    const auto indices = call.arguments.at(1).toOptionalTensorVector();
    const auto selects = [](const std::optional<at::Tensor>& each) {
      return each && each->defined() && (each->scalar_type() == at::kBool || each->scalar_type() == at::kByte);
    };
    if (std::ranges::none_of(indices, selects)) return;
  }
  throw Error("the shape of its result depends on data");
}

/// Random numbers are repeatable only where the interpreter draws them itself.
void expect_repeatable(const c10::OperatorHandle& op, const Call& call) {
  if (!op.hasTag(at::Tag::nondeterministic_seeded)) return;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if ((name == "train" || name == "training") && !call.arguments[i].toBool()) return;
    if (name == "dropout_p" && call.arguments[i].toDouble() == 0) return;
    if (name == "dropout" && call.arguments[i].isDouble() && call.arguments[i].toDouble() == 0) return;
  }
  if (call.name.name != "aten::dropout") throw Error("it draws random numbers, which a graph can repeat for dropout alone");
}

/// Makes a graph of a run; values are those of its tensors.
class Builder {
 public:
  Builder(const Run& run, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers) {
    for (const at::Tensor& input : run.inputs) graph_.inputs.push_back(add(Value::Kind::input, "", input));
    for (const NamedTensor& each : parameters) add(Value::Kind::parameter, each.name, each.tensor);
    for (const NamedTensor& each : buffers) add(Value::Kind::buffer, each.name, each.tensor);
    for (size_t i = 0; i < run.calls.size(); ++i) {
      try {
        add(run.calls[i]);
      } catch (const std::exception& error) {
        throw Error(concat("operator ", i, ", ", name_of(run.calls[i].name), ": ", error.what()));
      }
    }
    for (const at::Tensor& output : run.outputs) {
      if (!output.defined()) throw Error("an output of the module is not defined");
      graph_.outputs.push_back(value_of(output));
      if (!graph_.values.at(static_cast<size_t>(graph_.outputs.back())).of_batch)
        throw Error("an output of the module does not depend on its inputs");
    }
  }
  Graph take() {
    expect_filled();
    return std::move(graph_);
  }

 private:
  /// What is made empty must be filled by operators: torch::tensor({...}) and others write to it in a way that cannot be seen.
  void expect_filled() const {
    const auto storage = [&](int value) { return graph_.values[static_cast<size_t>(value)].storage; };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!node.op.starts_with("aten::empty") && !node.op.starts_with("aten::new_empty")) continue;
      const bool filled = std::ranges::any_of(graph_.nodes, [&](const Node& other) {
        return std::ranges::any_of(other.changes, [&](int changed) { return storage(changed) == storage(node.outputs[0]); });
      });
      if (!filled) throw Error(concat("operator ", i, ", ", node.op, ": what it makes is filled by no operator, as by torch::tensor({...})"));
    }
  }

  int add(Value::Kind kind, std::string name, const at::Tensor& tensor) {
    const int index = static_cast<int>(graph_.values.size());
    const auto storage = tensor.has_storage() ? storages_.emplace(tensor.storage().unsafeGetStorageImpl(), storages_.size()).first->second : -1;
    std::vector<Size> sizes;
    for (const int64_t size : tensor.sizes()) sizes.push_back({.fixed = size});
    graph_.values.push_back({.kind = kind,
                             .name = std::move(name),
                             .dtype = tensor.scalar_type(),
                             .sizes = std::move(sizes),
                             .storage = static_cast<int64_t>(storage),
                             .of_batch = kind == Value::Kind::input});
    values_[tensor.unsafeGetTensorImpl()] = index;
    return index;
  }

  int value_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return -1;
    const auto found = values_.find(tensor.unsafeGetTensorImpl());
    if (found != values_.end()) return found->second;
    if (tensor.has_storage() && storages_.contains(tensor.storage().unsafeGetStorageImpl())) return fresh_value_of(tensor);
    if (tensor.requires_grad()) throw Error(concat("a tensor of shape ", tensor.sizes(), " requires a gradient and is no parameter of the module"));
    const int index = add(Value::Kind::constant, "", tensor);
    graph_.constants.emplace_back(index, tensor);
    return index;
  }

  /// LibTorch's factories, such as torch::zeros(), make a second tensor of what at::zeros() gives. Others must not come out of nothing.
  int fresh_value_of(const at::Tensor& tensor) {
    const auto storage = static_cast<int64_t>(storages_.at(tensor.storage().unsafeGetStorageImpl()));
    for (const int value : of_nothing_) {
      const Value& made = graph_.values[static_cast<size_t>(value)];
      const bool same_shape = made.storage == storage && std::ranges::equal(made.sizes, tensor.sizes(), {}, &Size::fixed);
      if (same_shape) return values_[tensor.unsafeGetTensorImpl()] = value;
    }
    throw Error(concat("a tensor of shape ", tensor.sizes(), " came out of another one without an operator, as by data()"));
  }

  void add(const Call& call) {
    const auto op = c10::Dispatcher::singleton().findSchema(call.name);
    if (!op) throw Error("LibTorch's dispatcher does not know it");
    expect_repeatable(*op, call);
    expect_shape(*op, call);
    Node node{.op = call.name.name, .overload = call.name.overload_name, .with_gradient = call.with_gradient};
    for (const c10::IValue& argument : call.arguments)
      node.arguments.push_back(argument_of(argument, [&](const at::Tensor& t) { return value_of(t); }));
    const std::vector<int> inputs = node.inputs();
    const bool of_batch = std::ranges::any_of(inputs, [&](int i) { return graph_.values[static_cast<size_t>(i)].of_batch; });
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const auto* alias = op->schema().arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      const auto* ref = std::get_if<Ref>(&node.arguments[i]);
      if (ref == nullptr) throw Error("it changes a list of tensors");
      if (graph_.values.at(static_cast<size_t>(ref->value)).kind == Value::Kind::constant) {
        throw Error("it changes a tensor that is neither parameter nor buffer of the module");
      }
      node.changes.push_back(ref->value);
    }
    const auto add_result = [&](const at::Tensor& tensor) {
      node.outputs.push_back(tensor.defined() ? add(Value::Kind::computed, "", tensor) : -1);
      if (tensor.defined()) graph_.values.back().of_batch = of_batch;
    };
    for (const c10::IValue& result : call.results) {
      if (result.isTensor()) {
        add_result(result.toTensor());
      } else if (result.isTensorList()) {
        for (const at::Tensor& tensor : result.toTensorVector()) add_result(tensor);
      } else {
        throw Error("its result is a number, which the module may decide by: the flow must not depend on data");
      }
    }
    if (std::ranges::all_of(inputs, [&](int input) { return of_nothing_.contains(input); })) {
      for (const int output : node.outputs) of_nothing_.insert(output);
    }
    graph_.nodes.push_back(std::move(node));
  }

  Graph graph_;
  std::unordered_map<const c10::TensorImpl*, int> values_;  // the newest of each tensor
  std::unordered_map<const c10::StorageImpl*, size_t> storages_;
  std::set<int> of_nothing_;  // values that depend on no input, parameter, buffer or constant
};

/// Masks have rows.
void expect_rows_at_dropout(const Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != "aten::dropout" || !std::get<bool>(node.arguments[2])) continue;
    const Value& input = graph.values[static_cast<size_t>(std::get<Ref>(node.arguments[0]).value)];
    if (!input.is_rows()) throw Error(concat("operator ", i, ", ", node.op, ": the first dimension of what it takes are not the rows of the batch"));
  }
}

/// `graph` with what differs in `other` as a function of the rows.
Graph of_any_rows(Graph graph, int64_t rows, const Graph& other, int64_t other_rows) {
  if (graph.nodes.size() != other.nodes.size()) {
    const auto [here, there] = std::ranges::mismatch(graph.nodes, other.nodes, {}, &Node::op, &Node::op);
    const auto next = [&](const auto& node, const Graph& of) { return node == of.nodes.end() ? "nothing" : node->op; };
    throw Error(concat("the module calls ", graph.nodes.size(), " operators for ", rows, " rows and ", other.nodes.size(), " for ", other_rows,
                       "; operator ", here - graph.nodes.begin(), " is ", next(here, graph), " and ", next(there, other)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const Node& twin = other.nodes[i];
    const std::string where = concat("operator ", i, ", ", node.op);
    if (node.op != twin.op || node.overload != twin.overload || node.outputs != twin.outputs) {
      throw Error(concat(where, ": for ", other_rows, " rows in place of ", rows, " it is ", twin.op));
    }
    for (size_t k = 0; k < node.arguments.size(); ++k) {
      try {
        node.arguments[k] = with_rows(node.arguments[k], rows, twin.arguments[k], other_rows);
      } catch (const Error& error) {
        throw Error(concat(where, ", argument ", k, ": ", error.what()));
      }
    }
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    const Value& twin = other.values[i];
    if (value.sizes.size() != twin.sizes.size()) throw Error("a tensor has another number of dimensions when there are more rows");
    for (size_t k = 0; k < value.sizes.size(); ++k) value.sizes[k] = with_rows(value.sizes[k].fixed, rows, twin.sizes[k].fixed, other_rows);
  }
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    if (!at::equal(graph.constants[i].second, other.constants[i].second)) {
      throw Error(concat("a tensor of shape ", graph.constants[i].second.sizes(), " that comes from outside differs between two runs"));
    }
  }
  return graph;
}

}  // namespace

Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example) {
  TW_EXPECTS(!example.empty(), "an example has one tensor at least");
  for (const at::Tensor& each : example) {
    TW_EXPECTS(each.dim() > 0 && each.size(0) > 0 && each.size(0) == example[0].size(0), "the tensors of an example have equally many rows");
  }
  std::vector<at::Tensor> twice;
  for (const at::Tensor& each : example) twice.push_back(at::cat({each, each}));
  const Run one = run(forward, buffers, example);
  const Run two = run(forward, buffers, twice);
  const Graph graph = of_any_rows(Builder(one, parameters, buffers).take(), one.rows, Builder(two, parameters, buffers).take(), two.rows);
  expect_rows_at_dropout(graph);
  return graph;
}

}  // namespace tw::graph
