// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <functional>
#include <vector>

namespace tw::graph {

/// An operator that was called from outside of all others, but for those that are recorded as what they are made of.
struct Call {
  c10::OperatorName name;
  std::vector<c10::IValue> arguments = {};
  std::vector<c10::IValue> results = {};
  bool with_gradient = true;        // or autograd was switched off within the recording
  bool inside = false;              // of one that is recorded as what it is made of
  std::vector<size_t> writes = {};  // arguments that it changed though its schema does not say so, as native_batch_norm does
};

/// The operators that `run` calls on this thread. Their tensors live as long as the result, so that no two of them have one address.
///
/// Those that draw random numbers and are made of others are recorded as these: so few are left that a graph must draw for. Each operator's arguments
/// are compared with what they held before it.
/// @param opens so are all others that are made of others
std::vector<Call> recorded(const std::function<void()>& run, bool opens = false);

}  // namespace tw::graph
