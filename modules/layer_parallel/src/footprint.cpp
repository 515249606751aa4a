// SPDX-License-Identifier: Apache-2.0
#include "footprint.hpp"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <limits>
#include <tw/base/concat.hpp>
#include <unordered_map>
#include <utility>

namespace tw::layer_parallel {
namespace {

bool is_tensors(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return (list ? list->getElementType() : type)->isSubtypeOf(*c10::OptionalType::ofTensor());
}

/// Memory that nobody has written to yet: what it holds, whoever writes it, is no operator's result.
bool is_raw_memory(std::string_view name) { return name.starts_with("aten::empty") || name.starts_with("aten::new_empty"); }

bool equal(const c10::IValue& a, const c10::IValue& b) {
  if (!a.isTensor() || !b.isTensor()) return a.isTensor() == b.isTensor() && a == b;
  return a.toTensor().sizes() == b.toTensor().sizes() && a.toTensor().scalar_type() == b.toTensor().scalar_type() && a.toTensor().equal(b.toTensor());
}

}  // namespace

/// Hears of the operators that are called on this thread from outside of all others, while it lives.
class Listener {
 public:
  explicit Listener(Footprint& footprint) : footprint_(footprint), before_(std::exchange(current_, this)) {
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  ~Listener() {
    at::removeCallback(handle_);
    current_ = before_;
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Gives the tensor the next number, if it has none.
  void number(const at::Tensor& tensor) {
    if (tensor.defined() && numbers_.try_emplace(tensor.unsafeGetTensorImpl(), numbers_.size()).second) kept_.push_back(tensor);
  }

  /// What the step has given; it is over then.
  void close(const State& results) {
    ++depth_;
    std::vector<c10::IValue> given;
    for (const at::Tensor& tensor : results) add(tensor, given);
    footprint_.calls_.push_back({"the results", std::move(given)});
  }

 private:
  void add(const c10::IValue& value, std::vector<c10::IValue>& arguments) {
    if (value.isTensor() && value.toTensor().defined()) {
      const auto found = numbers_.find(value.toTensor().unsafeGetTensorImpl());
      if (found != numbers_.end()) {
        arguments.emplace_back(static_cast<int64_t>(found->second));
      } else {
        arguments.emplace_back(value.toTensor().detach().clone());
      }
    } else if (value.isTensor()) {
      arguments.emplace_back();
    } else if (value.isTensorList() || (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList())) {
      arguments.emplace_back(static_cast<int64_t>(value.toListRef().size()));
      for (const c10::IValue& item : value.toListRef()) add(item, arguments);
    } else if (value.isGenerator()) {
      arguments.emplace_back(std::numeric_limits<double>::quiet_NaN());  // what it holds goes on, and equals nothing
    } else {
      arguments.push_back(value);
    }
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    if (current_->depth_++ == 0) {
      Footprint::Call& call = current_->footprint_.calls_.emplace_back(Footprint::Call{function.name()});
      for (const c10::IValue& value : function.inputs()) current_->add(value, call.arguments);
    }
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
    if (--current_->depth_ > 0) return;
    for (const c10::IValue& value : function.outputs()) {
      if (value.isTensor() && !is_raw_memory(function.name())) current_->number(value.toTensor());
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorList()) current_->number(tensor);
      }
      if (!value.isTensor() && !value.isTensorList()) current_->look_at_results(function);
    }
  }

  // Beside operators' results, TorchScript shows what else is on its stack.
  void look_at_results(const at::RecordFunction& function) {
    if (!footprint_.reads_.empty()) return;
    const auto schema = function.operator_schema();
    const auto gives_tensors = [](const c10::Argument& result) { return is_tensors(result.type()); };
    if (schema && std::all_of(schema->returns().begin(), schema->returns().end(), gives_tensors)) return;
    footprint_.reads_ = function.name();
  }

  static thread_local Listener* current_;

  Footprint& footprint_;
  Listener* before_;
  at::CallbackHandle handle_ = 0;
  int depth_ = 0;
  std::unordered_map<const c10::TensorImpl*, size_t> numbers_;
  std::vector<at::Tensor> kept_;  // so that no two have one address
};

thread_local Listener* Listener::current_ = nullptr;

Footprint Footprint::of(const std::vector<at::Tensor>& inputs, const std::function<State()>& run) {
  Footprint footprint;
  Listener listener(footprint);
  for (const at::Tensor& tensor : inputs) listener.number(tensor);
  listener.close(run());
  return footprint;
}

std::string Footprint::difference(const Footprint& later) const {
  for (size_t c = 0; c < std::max(calls_.size(), later.calls_.size()); ++c) {
    if (c == calls_.size() || c == later.calls_.size() || calls_[c].name != later.calls_[c].name) {
      const auto name = [&](const Footprint& of) { return c < of.calls_.size() ? of.calls_[c].name : "nothing"; };
      return concat(name(later), " where it was ", name(*this));
    }
    const auto& [name, ours] = calls_[c];
    const auto& theirs = later.calls_[c].arguments;
    if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), equal)) return concat("other arguments of ", name);
  }
  return "";
}

}  // namespace tw::layer_parallel
