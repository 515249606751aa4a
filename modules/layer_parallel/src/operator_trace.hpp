// SPDX-License-Identifier: Apache-2.0
// The operators that a step calls, to compare it with another layer's step or with a later one.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <string>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Operators that a step calls on tensors that depend on its inputs, with their arguments. These tensors are numbered in the order in which they are
/// made. All others, such as members that are not parameters, are compared by value.
class OperatorTrace {
 public:
  using Step = std::function<State(const State& state, const State& extras)>;

  /// Traces `step` on this thread, with these inputs. @param parameters parameters that the step reads
  static OperatorTrace of(const State& state, const State& extras, const std::vector<at::Tensor>& parameters, const Step& step);

  /// Why the trace may be incomplete, such as "the layers read numbers from tensors, by aten::item"; empty: it is complete.
  const std::string& doubt() const noexcept { return doubt_; }

  /// The first difference of `step` from the trace; empty: none. Operators on tensors that depend on inputs are intercepted and not run, so this
  /// costs no more than the layer's own code. @param parameters replace the traced ones, one for one.
  std::string difference(const std::vector<at::Tensor>& parameters, const Step& step) const;

 private:
  friend class Recording;
  friend class Comparison;

  struct Argument {
    std::optional<int64_t> tensor = {};  // number of the tensor
    c10::IValue value = {};              // value of an argument without number
  };
  struct Result {
    bool is_list = false;
    std::vector<std::optional<int64_t>> tensors = {};  // numbers of the tensors; none: undefined
  };
  struct Call {
    c10::OperatorHandle op;
    std::vector<Argument> arguments = {};
    std::vector<Result> results = {};
  };
  std::vector<at::Tensor> tensors_;  // by number, without data: inputs, parameters, results
  State state_;                      // the inputs among them
  State extras_;
  std::vector<int64_t> parameters_;  // numbers of the parameters
  std::vector<Call> calls_;
  std::vector<Argument> given_;  // results of the step
  std::string doubt_;
};

}  // namespace tw::layer_parallel
