// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <c10/core/GradMode.h>

namespace tw::graph {
namespace {

struct Recording {
  int depth = 0;
  bool with_gradient = c10::GradMode::is_enabled();  // at its beginning
  std::vector<Call> calls;
};
thread_local Recording* recording = nullptr;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (recording != nullptr && recording->depth++ == 0) {
    Call& call = recording->calls.emplace_back(Call{function.operator_name().value_or(c10::OperatorName(function.name(), ""))});
    const auto inputs = function.inputs();
    call.arguments.assign(inputs.begin(), inputs.end());
    call.with_gradient = !recording->with_gradient || c10::GradMode::is_enabled();
  }
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (recording != nullptr && --recording->depth == 0) recording->calls.back().results = function.outputs();
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
