// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>

namespace tw::graph {

/// Intercepts the LibTorch operators that this thread calls while the listener exists. Each goes to call(), before autograd, autocast and functorch
/// process it. Operators on other threads are not intercepted, for example those of a backward pass on autograd's device threads.
///
/// If a thread has several listeners, only the newest is called. Destroy listeners on their own thread, in reverse order of construction.
class OperatorListener {
 public:
  /// @throws Error if this process holds two copies of Torchweave
  OperatorListener();
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Called instead of the operator. It must pop the operator's arguments from the top of the stack and push the results, as execute() and open() do.
  /// Below the arguments, the stack may hold other values. Operators that call() uses otherwise are intercepted, too, except in without_listening().
  /// @param keys dispatch keys of this call, for open()
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;
  /// Called when an Interpreter is about to draw random numbers in place of the operator. Default: does nothing.
  /// @param seed identifies the numbers that it draws
  virtual void draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed);

  /// Executes `op` as without a listener: the operators that it calls are not intercepted.
  static void execute(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// Executes `op`, and intercepts the operators that it calls. @param keys as passed to call()
  static void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  /// Calls `run` without intercepting its operators on this thread. Use it in call() for a listener's own work.
  static void without_listening(const std::function<void()>& run);
  /// Calls draw() of this thread's listener, if there is one.
  static void report_draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed);

 private:
  OperatorListener* before_;
};

}  // namespace tw::graph
