// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tw::graph {

/// Whether a call of `op` with these arguments draws random numbers. LibTorch marks the operators that can draw; arguments may turn drawing off, as
/// for dropout in evaluation mode.
bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

}  // namespace tw::graph
