// SPDX-License-Identifier: Apache-2.0
#include "operator_trace.hpp"

#include <ATen/core/function_schema.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <stdexcept>
#include <tw/base/concat.hpp>
#include <tw/graph/operator_listener.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <unordered_map>
#include <utility>

namespace tw::layer_parallel {
namespace {

/// Whether each item counts as a separate argument.
bool is_list_of_arguments(const c10::IValue& value) {
  return value.isTensorList() || (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList());
}

/// Calls `f` with each defined tensor in `value`.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (is_list_of_arguments(value)) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, f);
  }
}

bool is_tensors(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return (list ? list->getElementType() : type)->isSubtypeOf(*c10::OptionalType::ofTensor());
}

/// A tensor of the same shape and strides.
at::Tensor without_data(const at::Tensor& like) {
  at::Tensor tensor = at::empty_strided(like.sizes(), like.strides(), like.options());
  tensor.unsafeGetTensorImpl()->release_storage_and_set_meta_custom_data_ptr_error_msg_(
      "the layers read a tensor's memory, which does not exist while a layer is traced: use Batching::never");
  return tensor;
}

std::string first_line(const std::exception& e) {
  const std::string what = e.what();
  return what.substr(0, what.find('\n'));
}

}  // namespace

/// Runs a step's operators and fills a trace.
class Recording final : public graph::OperatorListener {
 public:
  Recording(OperatorTrace& trace, const State& state, const State& extras, const std::vector<at::Tensor>& parameters) : trace_(trace) {
    const auto numbered = [&](const at::Tensor& tensor) { return tensor.defined() ? trace_.tensors_[static_cast<size_t>(number(tensor))] : tensor; };
    trace_.state_ = each(state, numbered);
    trace_.extras_ = each(extras, numbered);
    for (const at::Tensor& parameter : parameters) trace_.parameters_.push_back(number(parameter));
  }

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack& stack) override {
    const c10::FunctionSchema& schema = op.schema();
    const auto arguments = torch::jit::last(stack, schema.arguments().size());
    if (std::none_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) { return depends(value); })) return execute(op, stack);
    OperatorTrace::Call call{op};
    const std::string& name = op.operator_name().name;
    for (size_t i = 0; i < arguments.size(); ++i) {
      add(arguments[i], call.arguments);
      const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite() && !depends(arguments[i])) doubt(concat("the layers write into a tensor of their own, by ", name));
    }
    const auto gives_tensors = [](const c10::Argument& result) { return is_tensors(result.type()); };
    if (!std::all_of(schema.returns().begin(), schema.returns().end(), gives_tensors)) {
      doubt(concat("the layers read numbers from tensors, by ", name, ", and may behave differently for other numbers"));
    }
    execute(op, stack);
    for (const c10::IValue& value : torch::jit::last(stack, schema.returns().size())) call.results.push_back(result(value));
    trace_.calls_.push_back(std::move(call));
  }

  void give(const State& state) {
    for (const at::Tensor& tensor : state) add(tensor, trace_.given_);
  }

 private:
  void add(const c10::IValue& value, std::vector<OperatorTrace::Argument>& arguments) {
    if (value.isTensor() && value.toTensor().defined()) {
      if (const auto number = find(value.toTensor())) {
        arguments.push_back({.tensor = number});
      } else {
        arguments.push_back({.value = value.toTensor().detach().clone()});
      }
    } else if (is_list_of_arguments(value)) {
      arguments.push_back({.value = static_cast<int64_t>(value.toListRef().size())});
      for (const c10::IValue& item : value.toListRef()) add(item, arguments);
    } else {
      arguments.push_back({.value = value});
    }
  }

  bool depends(const c10::IValue& value) const {
    bool any = false;
    for_each_tensor(value, [&](const at::Tensor& tensor) { any |= find(tensor).has_value(); });
    return any;
  }

  std::optional<int64_t> find(const at::Tensor& tensor) const {
    const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  OperatorTrace::Result result(const c10::IValue& value) {
    OperatorTrace::Result result{.is_list = value.isTensorList()};
    const auto add = [&](const at::Tensor& tensor) { result.tensors.push_back(tensor.defined() ? std::optional(number(tensor)) : std::nullopt); };
    if (value.isTensor()) add(value.toTensor());
    if (result.is_list) {
      for (const at::Tensor& tensor : value.toTensorList()) add(tensor);
    }
    return result;
  }

  int64_t number(const at::Tensor& tensor) {
    const auto [place, is_new] = numbers_.try_emplace(tensor.unsafeGetTensorImpl(), static_cast<int64_t>(kept_.size()));
    if (is_new) {
      kept_.push_back(tensor);
      trace_.tensors_.push_back(without_data(tensor));
    }
    return place->second;
  }

  void doubt(std::string why) {
    if (trace_.doubt_.empty()) trace_.doubt_ = std::move(why);
  }

  OperatorTrace& trace_;
  std::unordered_map<const c10::TensorImpl*, int64_t> numbers_;
  std::vector<at::Tensor> kept_;  // keeps addresses unique
};

/// Follows a step along a trace, and throws where they differ.
class Comparison final : public graph::OperatorListener {
 public:
  Comparison(const OperatorTrace& expected, const std::vector<at::Tensor>& parameters) : expected_(expected), tensors_(expected.tensors_) {
    for (size_t i = 0; i < parameters.size(); ++i) tensors_[static_cast<size_t>(expected.parameters_.at(i))] = parameters[i];
  }

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack& stack) override {
    const size_t count = op.schema().arguments().size();
    const auto arguments = torch::jit::last(stack, count);
    if (std::none_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) { return depends(value); })) return execute(op, stack);
    const std::string& name = op.operator_name().name;
    if (calls_ == expected_.calls_.size()) differ(concat(name, " instead of nothing"));
    const OperatorTrace::Call& call = expected_.calls_[calls_++];
    if (!(call.op == op)) differ(concat(name, " instead of ", call.op.operator_name().name));
    if (!are_expected(arguments, call.arguments)) differ(concat("different arguments of ", name));
    torch::jit::drop(stack, count);
    for (const OperatorTrace::Result& result : call.results) stack.push_back(made(result));
  }

  void give(const State& state) {
    if (calls_ < expected_.calls_.size()) differ(concat("nothing instead of ", expected_.calls_[calls_].op.operator_name().name));
    if (!are_expected(std::vector<c10::IValue>(state.begin(), state.end()), expected_.given_)) differ("different results");
  }

  const std::string& difference() const noexcept { return difference_; }

 private:
  [[noreturn]] void differ(std::string how) {
    difference_ = std::move(how);
    throw std::runtime_error(difference_);
  }

  template <class Values>
  bool are_expected(const Values& values, const std::vector<OperatorTrace::Argument>& expected) const {
    auto next = expected.begin();
    return std::all_of(values.begin(), values.end(), [&](const c10::IValue& value) { return is_expected(value, next, expected.end()); }) &&
           next == expected.end();
  }

  using Position = std::vector<OperatorTrace::Argument>::const_iterator;
  bool is_expected(const c10::IValue& value, Position& next, Position end) const {
    if (next == end) return false;
    const auto& [number, expected] = *next++;
    if (number) return value.isTensor() && value.toTensor().is_same(tensors_[static_cast<size_t>(*number)]);
    if (value.isGenerator()) return false;  // its state advances, so it equals no other
    if (is_list_of_arguments(value)) {
      const auto items = value.toListRef();
      return expected.isInt() && expected.toInt() == static_cast<int64_t>(items.size()) &&
             std::all_of(items.begin(), items.end(), [&](const c10::IValue& item) { return is_expected(item, next, end); });
    }
    if (value.isTensor() != expected.isTensor()) return false;
    return value.isTensor() ? equal(value.toTensor(), expected.toTensor()) : value == expected;
  }

  bool equal(const at::Tensor& a, const at::Tensor& b) const {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    return !depends(a) && a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b);
  }

  bool depends(const c10::IValue& value) const {
    bool any = false;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      any |= std::any_of(tensors_.begin(), tensors_.end(), [&](const at::Tensor& numbered) { return numbered.is_same(tensor); });
    });
    return any;
  }

  c10::IValue made(const OperatorTrace::Result& result) const {
    std::vector<at::Tensor> tensors;
    for (const auto& number : result.tensors) tensors.push_back(number ? tensors_[static_cast<size_t>(*number)] : at::Tensor());
    return result.is_list ? c10::IValue(std::move(tensors)) : c10::IValue(std::move(tensors.at(0)));
  }

  const OperatorTrace& expected_;
  size_t calls_ = 0;
  std::vector<at::Tensor> tensors_;  // by number
  std::string difference_;
};

OperatorTrace OperatorTrace::of(const State& state, const State& extras, const std::vector<at::Tensor>& parameters, const Step& step) {
  const c10::AutoGradMode no_gradients(false);
  OperatorTrace trace;
  Recording recording(trace, state, extras, parameters);
  recording.give(step(state, extras));
  return trace;
}

std::string OperatorTrace::difference(const std::vector<at::Tensor>& parameters, const Step& step) const {
  const c10::AutoGradMode no_gradients(false);
  Comparison comparison(*this, parameters);
  try {
    comparison.give(step(state_, extras_));
    return "";
  } catch (const std::exception& e) {
    return comparison.difference().empty() ? first_line(e) : comparison.difference();
  }
}

}  // namespace tw::layer_parallel
