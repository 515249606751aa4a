// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/interpreter.hpp>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tw/autograd/weight_gradients.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/base/random.hpp>
#include <tw/graph/operator_listener.hpp>
#include <tw/mpi/error.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/on_cpu.hpp>

#include "arguments.hpp"
#include "flow.hpp"
#include "random.hpp"

namespace tw::graph {
namespace {

/// A resolved operator with its known arguments.
struct Step {
  int node = 0;
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments = {};
  struct Tensors {
    size_t argument = 0;
    std::vector<int> values = {};  // one, unless it is a list
    bool list = false;
    bool optional = false;  // a list that may have entries without a tensor
    bool of_batch = false;  // for a single tensor: whether it depends on the batch
  };
  std::vector<Tensors> tensors = {};
  std::vector<std::pair<size_t, Argument>> sizes = {};  // those that depend on the rows
  std::vector<int> outputs = {};
  std::vector<int> done = {};               // values without further users
  std::optional<size_t> non_blocking = {};  // this argument's index, for a copy of argument 0 to an accelerator
  bool is_drawn = false;
  bool has_halves = false;  // its backward pass can run in two halves, see WeightGradients
  bool with_gradient = true;
  std::optional<bool> answer = {};
  std::optional<RowPlace> rows = {};
  uint64_t draw = 0;  // see draws_before()
  uint64_t stream = 0;
  std::vector<int64_t> order = {};  // dimensions of argument 0 by memory order, if the operator depends on it
};

/// Products: bilinear in a tensor of the batch and a weight, so that the gradients of the two share no work.
bool is_product(const std::string& op) {
  static const std::set<std::string> products{
      "aten::mm",       "aten::addmm",  "aten::bmm",       "aten::baddbmm",          "aten::matmul",           "aten::linear",
      "aten::conv1d",   "aten::conv2d", "aten::conv3d",    "aten::convolution",      "aten::addbmm",           "aten::mv",
      "aten::conv_tbc", "aten::addmv",  "aten::embedding", "aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"};
  return products.contains(op);
}

/// Whether an operator writes to the memory of a value.
bool is_changed(const Graph& graph, int value) {
  const auto shares = [&](int other) { return graph.values[at(other)].storage == graph.values[at(value)].storage; };
  return std::ranges::any_of(graph.nodes, [&](const Node& node) { return std::ranges::any_of(node.changes, shares); });
}

/// Whether a value is a parameter, buffer or constant, or a view of one.
bool shares_parameter(const Graph& graph, int value) {
  const auto is_given = [&](const Value& each) { return each.kind != Value::Kind::computed && each.storage == graph.values[at(value)].storage; };
  return std::ranges::any_of(graph.values, is_given);
}

/// By node: the number of earlier nodes that can draw. Random numbers depend on it instead of the node's index, so that they stay the same if
/// operators that do not draw are added, such as those of split layers.
std::vector<uint64_t> draws_before(const Graph& graph) {
  std::vector<uint64_t> before;
  uint64_t draws = 0;
  for (const Node& node : graph.nodes) {
    before.push_back(draws);
    if (can_draw(node.op)) ++draws;
  }
  return before;
}

uint64_t seed_of(uint64_t key, uint64_t draw, uint64_t stream) {
  const uint64_t seed = derived_seed(key, draw);
  return stream == 0 ? seed : derived_seed(seed, stream);
}

}  // namespace

class Interpreter::Impl {
 public:
  Impl(const Graph& graph, const std::vector<int>& nodes, std::vector<int> inputs, std::vector<int> outputs,
       const std::function<at::Tensor(const std::string&)>& bind)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)), values_(graph.values.size()), min_rows_(graph.min_rows) {
    for (const auto& [value, tensor] : graph.constants) {
      values_[at(value)] = is_on_accelerator(tensor) ? tensor.to(current_device(tensor.device().type())) : tensor;
    }
    const std::set<int> given(inputs_.begin(), inputs_.end());
    std::set<int> changed;
    std::vector<int> last_use(graph.values.size(), -1);
    const std::vector<uint64_t> draws = draws_before(graph);
    for (const int index : nodes) {
      const Node& node = graph.nodes[at(index)];
      steps_.push_back(step_of(graph, index));
      steps_.back().draw = draws[at(index)];
      for (const int input : node.inputs()) {
        last_use[at(input)] = static_cast<int>(steps_.size()) - 1;
        const Value& value = graph.values[at(input)];
        const bool is_bound = value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer;
        if (is_bound && !given.contains(input) && !values_[at(input)].defined()) values_[at(input)] = bind(value.name);
      }
      changed.insert(node.changes.begin(), node.changes.end());
    }
    for (const int output : outputs_) last_use[at(output)] = -1;
    for (size_t i = 0; i < steps_.size(); ++i) {
      for (const int output : steps_[i].outputs) {
        if (output >= 0 && last_use[at(output)] >= 0) steps_[at(last_use[at(output)])].done.push_back(output);
      }
    }
    for (const int input : inputs_) {
      if (last_use[at(input)] >= 0) steps_[at(last_use[at(input)])].done.push_back(input);
    }
    for (const int input : inputs_) {
      const auto shares = [&](int value) { return graph.values[at(value)].storage == graph.values[at(input)].storage; };
      if (std::ranges::any_of(changed, shares)) changed_inputs_.push_back(input);
    }
    for (const int index : nodes) names_.push_back(graph.nodes[at(index)].op);
  }

  bool is_random() const noexcept {
    return std::ranges::any_of(steps_, [](const Step& step) { return step.is_drawn; });
  }

  bool has_products() const noexcept {
    return std::ranges::any_of(steps_, [](const Step& step) { return step.has_halves; });
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, const PassRows& pass) const {
    TW_EXPECTS(inputs.size() == inputs_.size(), inputs.size(), " inputs were passed, but the graph takes ", inputs_.size());
    if (pass.rows > 0 && pass.rows < min_rows_) {
      throw Error(concat("a pass of ", pass.rows, " rows, but the module needs at least ", min_rows_,
                         ": with fewer it throws or behaves differently; use fewer micro-batches or replicas, or larger batches"));
    }
    std::vector<at::Tensor> values = values_;
    for (size_t i = 0; i < inputs.size(); ++i) values[at(inputs_[i])] = inputs[i];
    for (const int input : changed_inputs_) values[at(input)] = values[at(input)].clone();
    torch::jit::Stack stack;
    for (size_t i = 0; i < steps_.size(); ++i) {
      try {
        run(steps_[i], values, pass, stack);
      } catch (const RevokedError&) {  // another rank failed: callers tell it from failures of this one
        throw;
      } catch (const c10::Error& error) {  // what() would take milliseconds, to name the functions of the backtrace
        throw Error(concat("operator ", steps_[i].node, ", ", names_[i], ": ", error.what_without_backtrace()));
      } catch (const std::exception& error) {
        throw Error(concat("operator ", steps_[i].node, ", ", names_[i], ": ", error.what()));
      }
    }
    std::vector<at::Tensor> outputs;
    for (const int output : outputs_) outputs.push_back(values[at(output)]);
    return outputs;
  }

 private:
  static Step step_of(const Graph& graph, int index) {
    const Node& node = graph.nodes[at(index)];
    const auto op = c10::Dispatcher::singleton().findSchema({node.op, node.overload});
    if (!op) throw Error(concat("operator ", index, ", ", node.op, ": LibTorch's dispatcher does not know this operator"));
    const auto& declared = op->schema().arguments();
    if (declared.size() != node.arguments.size()) {
      throw Error(concat("operator ", index, ", ", node.op, ": ", node.arguments.size(), " arguments are recorded, but LibTorch's operator takes ",
                         declared.size()));
    }
    Step step{.node = index,
              .op = *op,
              .outputs = node.outputs,
              .with_gradient = node.with_gradient,
              .answer = node.answer,
              .rows = node.rows,
              .stream = node.stream};
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Argument& argument = node.arguments[i];
      step.arguments.push_back(ivalue_of(argument, 0));
      if (const auto* object = std::get_if<Object>(&argument); object != nullptr && object->value.isNone()) {
        throw Error(
            concat("operator ", index, ", ", node.op, ": it uses ", object->name, ", an object that JSON cannot hold: call replace_objects() first"));
      }
      if (depends_on_rows(argument)) step.sizes.emplace_back(i, argument);
      if (const auto* ref = std::get_if<Ref>(&argument); ref != nullptr && ref->value >= 0) {
        step.tensors.push_back({.argument = i, .values = {ref->value}, .of_batch = graph.values[at(ref->value)].of_batch});
      }
      if (const auto* refs = std::get_if<std::vector<Ref>>(&argument)) {
        const auto* list = declared[i].type()->castRaw<c10::ListType>();
        Step::Tensors tensors{
            .argument = i, .list = true, .optional = list != nullptr && list->getElementType()->kind() == c10::TypeKind::OptionalType};
        for (const Ref& each : *refs) tensors.values.push_back(each.value);
        step.tensors.push_back(std::move(tensors));
      }
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      const auto names_accelerator = [](const c10::IValue& each) {
        return each.isDevice() && at::accelerator::isAccelerator(each.toDevice().type());
      };
      const bool is_asked = declared[i].name() == "non_blocking" && std::ranges::any_of(step.arguments, names_accelerator);
      if (is_asked && std::holds_alternative<Ref>(node.arguments[0])) step.non_blocking = i;
    }
    step.is_drawn = can_draw(node.op) && draws(*op, step.arguments);
    // No halves for computed weights: the first half may also run backward through the node that computes the weight, and that frees its tensors.
    const auto is_computed = [&](const Step::Tensors& each) { return !each.of_batch && !shares_parameter(graph, each.values[0]); };
    // No halves for buffers that passes write to: the next pass may run before the second half.
    const auto is_written = [&](const Step::Tensors& each) { return !each.of_batch && is_changed(graph, each.values[0]); };
    const bool has_weight = std::ranges::any_of(step.tensors, [](const Step::Tensors& each) { return !each.of_batch; });
    step.has_halves = is_product(node.op) && has_weight && std::ranges::none_of(step.tensors, is_computed) &&
                      std::ranges::none_of(step.tensors, is_written) && node.outputs.size() == 1 && node.changes.empty();
    if (looks_past_views(node)) step.order = graph.values[at(std::get<Ref>(node.arguments[0]).value)].order;
    return step;
  }

  void run(const Step& step, std::vector<at::Tensor>& values, const PassRows& pass, torch::jit::Stack& stack) const {
    stack.assign(step.arguments.begin(), step.arguments.end());
    for (const auto& [i, size] : step.sizes) stack[i] = ivalue_of(size, pass.rows);
    for (const Step::Tensors& each : step.tensors) stack[each.argument] = tensors_of(each, values);
    if (step.non_blocking) copy_without_wait(stack, *step.non_blocking);
    if (!step.order.empty() && !pass.probe) expect_order(stack[0].toTensor(), step.order);
    const c10::AutoGradMode mode(step.with_gradient && c10::GradMode::is_enabled());
    if (step.is_drawn) {
      const uint64_t seed = seed_of(pass.key, step.draw, step.stream);
      const Numbers numbers{.seed = seed, .first = pass.first, .rows = pass.rows, .place = step.rows, .middle = pass.probe};
      OperatorListener::report_draw(step.op, stack, seed);
      values[at(step.outputs[0])] = draw(step.op.operator_name().name, stack, numbers);
    } else {
      WeightGradients* const later = step.has_halves ? WeightGradients::here() : nullptr;
      later != nullptr ? call_in_halves(step, stack, *later) : step.op.callBoxed(stack);
      keep(step, stack, values, pass.probe);
    }
    for (const int value : step.done) values[at(value)] = at::Tensor();
  }

  static void call_in_halves(const Step& step, torch::jit::Stack& stack, WeightGradients& later) {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> weights;
    for (const Step::Tensors& each : step.tensors) (each.of_batch ? inputs : weights).push_back(stack[each.argument].toTensor());
    const at::Tensor result = later.record(inputs, weights, [&](const std::vector<at::Tensor>& of_batch, const std::vector<at::Tensor>& others) {
      auto input = of_batch.begin();
      auto weight = others.begin();
      for (const Step::Tensors& each : step.tensors) stack[each.argument] = *(each.of_batch ? input++ : weight++);
      step.op.callBoxed(stack);
      return stack[0].toTensor();
    });
    stack = {result};
  }

  /// Ignores dimensions of size one, whose position has no meaning.
  static void expect_order(const at::Tensor& tensor, std::vector<int64_t> captured) {
    std::vector<int64_t> order = memory_order(tensor);
    const auto is_one = [&](int64_t dimension) { return tensor.size(dimension) == 1; };
    std::erase_if(order, is_one);
    std::erase_if(captured, is_one);
    if (order == captured) return;
    throw Error(
        "the dimensions of the tensor that it reads have a different order in memory than when the module was captured: in the module, call "
        "clone() on it first, with MemoryFormat::Contiguous");
  }

  /// Does not wait when a module creates a tensor on the host in each pass and copies it to the device, e.g. torch::tensor({...}).to(device).
  static void copy_without_wait(torch::jit::Stack& stack, size_t non_blocking) {
    const at::Tensor from = stack[0].toTensor();
    if (!from.is_cpu() || from.requires_grad() || from.is_pinned()) return;
    stack[0] = from.pin_memory();
    stack[non_blocking] = true;
  }

  static c10::IValue tensors_of(const Step::Tensors& each, const std::vector<at::Tensor>& values) {
    if (!each.list) return values[at(each.values[0])];
    if (!each.optional) {
      c10::List<at::Tensor> list;
      for (const int value : each.values) list.push_back(values[at(value)]);
      return list;
    }
    c10::List<std::optional<at::Tensor>> list;
    for (const int value : each.values) list.push_back(value < 0 ? std::nullopt : std::optional(values[at(value)]));
    return list;
  }

  /// Stores the results; lists are flattened.
  static void keep(const Step& step, const torch::jit::Stack& results, std::vector<at::Tensor>& values, bool is_probe) {
    size_t next = 0;
    const auto keep_one = [&](const at::Tensor& tensor) {
      if (next >= step.outputs.size())
        throw Error(concat("it returns more than ", step.outputs.size(), " tensors: the number of its results depends on the batch"));
      const int output = step.outputs[next++];
      if (output >= 0) values[at(output)] = tensor;
    };
    for (const c10::IValue& result : results) {
      if (result.isBool()) {
        if (result.toBool() != step.answer && !is_probe) {
          throw Error(concat("it returns ", result.toBool() ? "true" : "false", " where it returned ", *step.answer ? "true" : "false",
                             " when the module was captured: the module may take a different branch here"));
        }
      } else if (result.isTensor()) {
        keep_one(result.toTensor());
      } else {
        for (const at::Tensor& tensor : result.toTensorVector()) keep_one(tensor);
      }
    }
  }

  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<at::Tensor> values_;  // constants, parameters and buffers
  int64_t min_rows_;
  std::vector<Step> steps_;
  std::vector<std::string> names_;   // of the steps' operators
  std::vector<int> changed_inputs_;  // changed in place, so copied first: callers must not see it
};

Interpreter::Interpreter(const Graph& graph, const std::vector<int>& nodes, const std::vector<int>& inputs, const std::vector<int>& outputs,
                         const std::function<at::Tensor(const std::string& name)>& bind)
    : impl_(std::make_unique<Impl>(graph, nodes, inputs, outputs, bind)) {}

Interpreter::Interpreter(const Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind) {
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  impl_ = std::make_unique<Impl>(graph, all, graph.inputs, graph.outputs, bind);
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

bool Interpreter::is_random() const noexcept { return impl_->is_random(); }
bool Interpreter::has_products() const noexcept { return impl_->has_products(); }
std::vector<at::Tensor> Interpreter::run(const std::vector<at::Tensor>& inputs, const PassRows& pass) const { return impl_->run(inputs, pass); }

}  // namespace tw::graph
