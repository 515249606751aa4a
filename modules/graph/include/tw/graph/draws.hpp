// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace tw::graph {

/// Whether the result of `op` with these arguments may depend on random numbers. True for operators with LibTorch's tag nondeterministic_seeded,
/// unless an argument excludes it: `train` or `training` is false, as for dropout in evaluation mode, or the probability `p`, `dropout` or
/// `dropout_p` is 0. False for operators without the tag, even if they draw, as custom ones may.
/// @param arguments one for each argument of the schema, in its order, also those with defaults. Only flags and numbers are read: tensors may be None
bool draws(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments);

}  // namespace tw::graph
