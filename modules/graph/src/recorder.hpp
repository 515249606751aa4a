// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>

#include <functional>
#include <vector>

namespace tw::graph {

/// A call of a top-level operator, or of an operator directly inside a composite that is recorded by its parts.
struct Call {
  c10::OperatorName name;
  std::vector<c10::IValue> arguments = {};
  std::vector<c10::IValue> results = {};
  bool with_gradient = true;        // false: autograd was disabled within the recording
  bool inside = false;              // inside a composite that is recorded by its parts
  std::vector<size_t> writes = {};  // arguments changed against the schema, as by native_batch_norm
  uint64_t stream = 0;              // see RandomStream
};

/// The operators that `run` calls on this thread. Their tensors live as long as the result, so that addresses are unique.
///
/// Composite operators that draw random numbers are recorded by their parts, so that few operators must be redrawn by a graph. Each operator's
/// arguments are compared before and after it. Operators that communicate with other ranks do not, see DryRun.
/// @param opens record all other composites by their parts, too
std::vector<Call> recorded(const std::function<void()>& run, bool opens = false);

}  // namespace tw::graph
