// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace tw::graph {

/// Stands between the operators that are called on this thread and LibTorch, while it lives: at a dispatch key before all others. Operators that
/// others call go past it.
class OperatorListener {
 public:
  OperatorListener();
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Takes the operator's arguments, the last of the stack, from there, and leaves its results. @param keys of this call, for open().
  virtual void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) = 0;

  /// Has LibTorch do it.
  static void carry_out(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// The same, and the operators are heard of that it is made of.
  static void open(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  /// Runs what a listener does for itself: no listener hears of its operators.
  static void unheard(const std::function<void()>& run);

 private:
  OperatorListener* before_;
};

}  // namespace tw::graph
