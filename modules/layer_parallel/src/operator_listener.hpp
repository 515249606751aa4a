// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tw::layer_parallel {

/// Stands between the operators that are called on this thread and LibTorch, while it lives. Operators that others call go past it.
class OperatorListener {
 public:
  OperatorListener();
  virtual ~OperatorListener();
  OperatorListener(const OperatorListener&) = delete;
  OperatorListener& operator=(const OperatorListener&) = delete;

  /// Takes the operator's arguments from the stack, and leaves its results there.
  virtual void call(const c10::OperatorHandle& op, torch::jit::Stack& stack) = 0;

  /// Has LibTorch do it.
  static void carry_out(const c10::OperatorHandle& op, torch::jit::Stack& stack);

 private:
  OperatorListener* before_;
};

}  // namespace tw::layer_parallel
