// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <ATen/record_function.h>

#include <functional>
#include <vector>

namespace tw::graph {

/// An operator that was called from outside of all others.
struct Call {
  c10::OperatorName name;
  std::vector<c10::IValue> arguments = {};
  std::vector<c10::IValue> results = {};
  bool with_gradient = true;  // or autograd was switched off within the recording
};

/// The operators that `run` calls on this thread. Their tensors live as long as the result, so that no two of them have one address.
std::vector<Call> recorded(const std::function<void()>& run);

}  // namespace tw::graph
