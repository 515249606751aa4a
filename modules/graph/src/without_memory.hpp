// SPDX-License-Identifier: Apache-2.0
// Operators on tensors without memory, those on LibTorch's meta device.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <unordered_set>

namespace tw::graph {

/// Whether a tensor among the last arguments of `stack` has no memory.
bool lacks_memory(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

/// Operators found so far to have no kernel on the meta device. LibTorch offers no way to ask.
using WithoutKernel = std::unordered_set<c10::OperatorName>;

/// Executes an operator some of whose tensors have no memory. Its results have none either. The shapes, strides and shared memory of the results are
/// those of tensors with memory. The operator runs on the meta device, where many operators have no kernel in C++ (embeddings, normalizations,
/// convolutions, attention): these run on the CPU instead, on zeros, which take no memory unless they are written.
void execute_without_memory(const c10::OperatorHandle& op, torch::jit::Stack& stack, WithoutKernel& without_kernel);

}  // namespace tw::graph
