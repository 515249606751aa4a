// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <ATen/core/List.h>
#include <ATen/core/function_schema.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "random.hpp"

namespace tw::graph {
namespace {

struct Recording {
  int depth = 0;                                     // of operators that are recorded, or lie in one
  std::vector<bool> opened;                          // by operator under way, outermost first: it is recorded as what it is made of
  bool with_gradient = c10::GradMode::is_enabled();  // at its beginning
  std::vector<Call> calls;
};
thread_local Recording* recording = nullptr;

/// A call out of TorchScript shows the whole stack of its interpreter, of which the last values are the operator's.
std::vector<c10::IValue> last_of(const auto& stack, size_t count) {
  return std::vector<c10::IValue>(stack.end() - static_cast<std::ptrdiff_t>(std::min(count, stack.size())), stack.end());
}

/// Lists as they are now: TorchScript's may grow while their operator's call is known.
std::vector<c10::IValue> frozen(std::vector<c10::IValue> values) {
  for (c10::IValue& value : values) {
    if (value.isList()) value = value.toList().copy();
  }
  return values;
}

bool opens(const c10::OperatorName& name, const std::vector<c10::IValue>& arguments) {
  const auto op = c10::Dispatcher::singleton().findSchema(name);
  return op && draws(*op, arguments) && is_made_of_others(*op);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (recording == nullptr) return nullptr;
  bool opened = false;
  if (recording->depth == 0) {
    const auto schema = function.operator_schema();
    Call call{function.operator_name().value_or(c10::OperatorName(function.name(), ""))};
    call.arguments = frozen(last_of(function.inputs(), schema ? schema->arguments().size() : function.inputs().size()));
    call.with_gradient = !recording->with_gradient || c10::GradMode::is_enabled();
    call.inside = !recording->opened.empty();
    opened = opens(call.name, call.arguments);
    if (!opened) recording->calls.push_back(std::move(call));
  }
  recording->depth += opened ? 0 : 1;
  recording->opened.push_back(opened);
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (recording == nullptr) return;
  const bool opened = recording->opened.back();
  recording->opened.pop_back();
  if (!opened && --recording->depth == 0) {
    const auto schema = function.operator_schema();
    recording->calls.back().results = frozen(last_of(function.outputs(), schema ? schema->returns().size() : function.outputs().size()));
  }
}

class Callback {
 public:
  Callback()
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(begin, end).needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION}))) {}
  ~Callback() {
    at::removeCallback(handle_);
    recording = nullptr;
  }
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::vector<Call> recorded(const std::function<void()>& run) {
  Recording made;
  const Callback callback;
  recording = &made;
  run();
  return std::move(made.calls);
}

}  // namespace tw::graph
