// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <ATen/core/function_schema.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace tw::graph {
namespace {

struct Recording {
  int depth = 0;
  bool with_gradient = c10::GradMode::is_enabled();  // at its beginning
  std::vector<Call> calls;
};
thread_local Recording* recording = nullptr;

/// A call out of TorchScript shows the whole stack of its interpreter, of which the last values are the operator's.
std::vector<c10::IValue> last_of(const auto& stack, size_t count) {
  return std::vector<c10::IValue>(stack.end() - static_cast<std::ptrdiff_t>(std::min(count, stack.size())), stack.end());
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (recording != nullptr && recording->depth++ == 0) {
    Call& call = recording->calls.emplace_back(Call{function.operator_name().value_or(c10::OperatorName(function.name(), ""))});
    const auto schema = function.operator_schema();
    call.arguments = last_of(function.inputs(), schema ? schema->arguments().size() : function.inputs().size());
    call.with_gradient = !recording->with_gradient || c10::GradMode::is_enabled();
  }
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (recording != nullptr && --recording->depth == 0) {
    const auto schema = function.operator_schema();
    recording->calls.back().results = last_of(function.outputs(), schema ? schema->returns().size() : function.outputs().size());
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
