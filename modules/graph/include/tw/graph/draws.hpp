// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tw::graph {

/// Whether a call with these arguments draws random numbers. LibTorch marks operators that can; arguments may disable it, such as dropout's in
/// evaluation.
bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

}  // namespace tw::graph
