// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>

namespace tw::graph {

/// Intercepts the operators that this thread calls during the object's lifetime, at a dispatch key before all others. Operators that other operators
/// call are not intercepted.
class OperatorListener {
 public:
  OperatorListener();
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Called instead of the operator: pops its arguments from the top of the stack, and pushes its results. @param keys dispatch keys of this call,
  /// for open().
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;
  /// Called when an Interpreter is about to draw random numbers in place of the operator. Default: does nothing.
  /// @param seed identifies the numbers that it draws
  virtual void draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed);

  /// Executes the operator in LibTorch.
  static void execute(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// As execute(), but the operators that `op` calls are intercepted, too.
  static void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  /// Calls `run` without intercepting its operators, for a listener's own work.
  static void without_listening(const std::function<void()>& run);
  /// Calls draw() of this thread's listener, if there is one.
  static void report_draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed);

 private:
  OperatorListener* before_;
};

}  // namespace tw::graph
