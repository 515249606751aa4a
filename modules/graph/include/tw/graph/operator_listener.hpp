// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace tw::graph {

/// Intercepts the operators called on this thread during its lifetime, at a dispatch key before all others. Operators called by other operators are
/// not intercepted.
class OperatorListener {
 public:
  OperatorListener();
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Pops the operator's arguments from the top of the stack, and pushes its results. @param keys dispatch keys of this call, for open().
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;

  /// Executes the operator in LibTorch.
  static void execute(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// The same, but the operators that it calls are intercepted.
  static void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  /// Runs a listener's own work, whose operators are not intercepted.
  static void without_listening(const std::function<void()>& run);

 private:
  OperatorListener* before_;
};

}  // namespace tw::graph
