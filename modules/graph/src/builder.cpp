// SPDX-License-Identifier: Apache-2.0
#include "builder.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/memory_order.hpp>
#include <unordered_map>

#include "arguments.hpp"
#include "flow.hpp"
#include "random.hpp"

namespace tw::graph {
namespace {

/// @throws Error if the number of result rows depends on data.
void expect_shape(const c10::OperatorHandle& op, const Call& call) {
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return;
  if (call.name.name == "aten::index") {
    const auto indices = call.arguments.at(1).toListRef();
    const auto selects = [](const c10::IValue& each) {
      return each.isTensor() && each.toTensor().defined() &&
             (each.toTensor().scalar_type() == at::kBool || each.toTensor().scalar_type() == at::kByte);
    };
    if (std::ranges::none_of(indices, selects)) return;
  }
  throw Error("the shape of its result depends on data");
}

/// Whether the operator changes an argument: by its schema, by its observed effect, or because it updates running statistics. LibTorch's schemas omit
/// those, and a batch may happen to leave them unchanged.
bool changes(const c10::OperatorHandle& op, const Call& call, size_t argument) {
  const auto& declared = op.schema().arguments();
  const auto* alias = declared[argument].alias_info();
  if ((alias != nullptr && alias->isWrite()) || std::ranges::find(call.writes, argument) != call.writes.end()) return true;
  const std::string& name = declared[argument].name();
  const bool is_statistic = (name == "running_mean" || name == "running_var") && !call.name.name.ends_with("_backward");
  if (!is_statistic || !call.arguments[argument].isTensor() || !call.arguments[argument].toTensor().defined()) return false;
  if (!call.writes.empty()) return true;  // it wrote the other statistic, so it updates both
  for (size_t i = 0; i < declared.size(); ++i) {
    const bool is_mode = declared[i].name() == "training" || declared[i].name() == "use_input_stats";
    if (is_mode && call.arguments[i].isBool()) return call.arguments[i].toBool();
  }
  return false;
}

/// Whether the operator's result depends on shapes only. Such a result is treated like any size where it is used.
bool tells_shape(const std::string& op) {
  static const std::set<std::string> all{"aten::numel",    "aten::size",           "aten::stride",
                                         "aten::dim",      "aten::storage_offset", "aten::sym_numel",
                                         "aten::sym_size", "aten::sym_stride",     "aten::sym_storage_offset"};
  return all.contains(op);
}

bool is_filled_later(const std::string& op) { return op.starts_with("aten::empty") || op.starts_with("aten::new_empty"); }

/// Builds a graph whose values are the tensors of a run.
class Builder {
 public:
  Builder(const Run& run, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers) {
    for (const at::Tensor& input : run.inputs) graph_.inputs.push_back(add(Value::Kind::input, "", input));
    for (const NamedTensor& each : parameters) add(Value::Kind::parameter, each.name, each.tensor);
    for (const NamedTensor& each : buffers) add(Value::Kind::buffer, each.name, each.tensor);
    for (size_t i = 0; i < run.calls.size(); ++i) {
      const Call& call = run.calls[i];
      try {
        if (!is_choice_among_kernels(call)) add(call);
      } catch (const UnknownTensor& error) {
        throw UnknownTensor(concat("operator ", i, ", ", full_name(call.name.name, call.name.overload_name), ": ", error.what()));
      } catch (const std::exception& error) {
        throw Error(concat("operator ", i, ", ", full_name(call.name.name, call.name.overload_name), ": ", error.what()));
      }
    }
    for (const at::Tensor& output : run.outputs) {
      if (!output.defined()) throw Error("an output of the module is an undefined tensor");
      graph_.outputs.push_back(value_of(output));
    }
  }

  Graph take() {
    mark_batch(graph_);
    const Reach changing = reach_of(
        graph_, [](const Value& value) { return value.kind != Value::Kind::constant && value.kind != Value::Kind::computed; },
        [](const Node& node) { return can_draw(node.op); });
    std::vector<bool> dropped(graph_.nodes.size(), false);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) dropped[i] = is_constant(i, changing.nodes[i]);
    return without(graph_, std::move(dropped));
  }

 private:
  /// A call inside an operator that is recorded by its parts, e.g. one that picks the fastest kind of attention.
  static bool is_choice_among_kernels(const Call& call) {
    return call.inside && std::ranges::none_of(call.results, [](const c10::IValue& each) { return each.isTensor() || each.isTensorList(); });
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
                             .order = memory_order(tensor),
                             .storage = static_cast<int64_t>(storage)});
    tensors_.push_back(tensor);
    values_[tensor.unsafeGetTensorImpl()] = index;
    return index;
  }

  int value_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return -1;
    const auto found = values_.find(tensor.unsafeGetTensorImpl());
    if (found != values_.end()) return found->second;
    if (tensor.has_storage() && storages_.contains(tensor.storage().unsafeGetStorageImpl())) return fresh_value_of(tensor);
    if (tensor.requires_grad())
      throw UnknownTensor(concat("a tensor of shape ", tensor.sizes(), " requires a gradient, but is not a parameter of the module"));
    expect_current(tensor.device());
    expect_values(tensor);
    const int index = add(Value::Kind::constant, "", tensor);
    graph_.constants.emplace_back(index, tensor);
    constant_storages_.insert(graph_.values.back().storage);
    return index;
  }

  static void expect_values(const at::Tensor& constant) {
    if (constant.is_meta())
      throw Error(concat("a tensor of shape ", constant.sizes(),
                         " is neither a parameter nor a buffer, and without memory it has no values: register it in the module"));
  }

  /// A second tensor object for a known value. Autograd makes one for a result that it saved. Factories such as torch::zeros() and
  /// torch::zeros_like() make one for the result of at::zeros(). Others are errors.
  int fresh_value_of(const at::Tensor& tensor) {
    const auto storage = static_cast<int64_t>(storages_.at(tensor.storage().unsafeGetStorageImpl()));
    for (size_t value = tensors_.size(); value-- > 0;) {
      if (is_saved_result(tensors_[value], tensor)) return values_[tensor.unsafeGetTensorImpl()] = static_cast<int>(value);
    }
    for (const int value : recreated_) {
      const Value& made = graph_.values[at(value)];
      const bool same_shape = made.storage == storage && std::ranges::equal(made.sizes, tensor.sizes(), {}, &Size::fixed);
      if (same_shape) return values_[tensor.unsafeGetTensorImpl()] = value;
    }
    throw UnknownTensor(concat("a tensor of shape ", tensor.sizes(), " was made from another tensor without an operator, such as by data()"));
  }

  /// Whether `tensor` is autograd's copy of `known`, an operator's result that was saved for the operator's gradient.
  static bool is_saved_result(const at::Tensor& known, const at::Tensor& tensor) {
    return tensor.grad_fn() != nullptr && known.grad_fn() == tensor.grad_fn() && known.output_nr() == tensor.output_nr() &&
           known.is_alias_of(tensor) && known.sizes() == tensor.sizes() && known.strides() == tensor.strides() &&
           known.storage_offset() == tensor.storage_offset();
  }

  void add(const Call& call) {
    const auto op = c10::Dispatcher::singleton().findSchema(call.name);
    if (!op) throw Error("LibTorch's dispatcher does not know this operator");
    if (draws(*op, call.arguments) && !can_draw(call.name.name)) throw Error("it draws random numbers that a graph cannot repeat");
    expect_shape(*op, call);
    Node node{.op = call.name.name, .overload = call.name.overload_name, .with_gradient = call.with_gradient, .stream = call.stream};
    for (const c10::IValue& argument : call.arguments)
      node.arguments.push_back(argument_of(argument, [&](const at::Tensor& t) { return value_of(t); }));
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (!changes(*op, call, i)) continue;
      const auto* ref = std::get_if<Ref>(&node.arguments[i]);
      if (ref == nullptr) throw Error("it changes a list of tensors in place, which a graph cannot record");
      change(node, ref->value);
    }
    const bool of_nothing = std::ranges::all_of(node.inputs(), [&](int input) { return of_nothing_.contains(input); });
    for (const int changed : node.changes) {
      const auto shows = [&](int made) { return graph_.values[at(made)].storage == graph_.values[at(changed)].storage; };
      if (!of_nothing) std::erase_if(recreated_, shows);
    }
    const auto add_result = [&](const at::Tensor& tensor) {
      node.outputs.push_back(tensor.defined() ? add(Value::Kind::computed, "", tensor) : -1);
      if (of_nothing) of_nothing_.insert(node.outputs.back());
      if (of_nothing || (node.changes.empty() && node.op.ends_with("_like"))) recreated_.insert(node.outputs.back());
    };
    for (const c10::IValue& result : call.results) {
      if (result.isTensor()) {
        add_result(result.toTensor());
      } else if (result.isTensorList()) {
        for (const at::Tensor& tensor : result.toTensorVector()) add_result(tensor);
      } else {
        if (result.isBool()) node.answer = result.toBool();
        if (!result.isBool()) numbers_.insert(graph_.nodes.size());
      }
    }
    graph_.nodes.push_back(std::move(node));
  }

  void change(Node& node, int value) {
    const int64_t storage = graph_.values.at(at(value)).storage;
    if (constant_storages_.contains(storage)) throw Error("it changes a tensor that is neither parameter nor buffer of the module");
    node.changes.push_back(value);
    changed_storages_.insert(storage);
  }

  /// Whether node `i` need not run. Either its answer never changes, or no operator fills its result, as with torch::tensor({...}); that result then
  /// becomes a constant. @param may_change whether its inputs may change
  bool is_constant(size_t i, bool may_change) {
    Node& node = graph_.nodes[i];
    if (numbers_.contains(i)) {
      if (!may_change || tells_shape(node.op)) return true;  // e.g. a size, which is an argument where it is used
      throw Error(
          concat("operator ", i, ", ", node.op, ": its result is a number, and the module may branch on it: control flow must not depend on data"));
    }
    if (node.answer) {
      const std::vector<int> inputs = node.inputs();
      const bool compares_with_itself = node.op == "aten::equal" && inputs.size() == 2 && inputs[0] == inputs[1];
      if (!may_change || compares_with_itself) return true;
    }
    if (!is_filled_later(node.op) || node.of_batch || changed_storages_.contains(graph_.values[at(node.outputs[0])].storage)) return false;
    expect_values(tensors_[at(node.outputs[0])]);
    graph_.values[at(node.outputs[0])].kind = Value::Kind::constant;
    graph_.constants.emplace_back(node.outputs[0], tensors_[at(node.outputs[0])]);
    return true;
  }

  Graph graph_;
  std::vector<at::Tensor> tensors_;                         // by value
  std::unordered_map<const c10::TensorImpl*, int> values_;  // the latest value of each tensor
  std::unordered_map<const c10::StorageImpl*, size_t> storages_;
  std::set<int64_t> constant_storages_;
  std::set<int64_t> changed_storages_;
  std::set<int> of_nothing_;  // values that depend on no input, parameter, buffer or constant
  std::set<int> recreated_;   // values that may have a second tensor object, since no gradient can flow back from them
  std::set<size_t> numbers_;  // nodes whose result is a number
};

}  // namespace

Graph graph_of(const Run& run, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers) {
  return Builder(run, parameters, buffers).take();
}

std::string full_name(const std::string& name, const std::string& overload) { return overload.empty() ? name : concat(name, '.', overload); }

}  // namespace tw::graph
