// SPDX-License-Identifier: Apache-2.0
// What a step has LibTorch do, to be compared with what another layer's or a later one does.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <optional>
#include <string>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The operators that a step calls on what depends on its inputs, with their arguments. Tensors that depend on inputs are known by their number, in
/// the order in which they are made; all others, such as members that are no parameters, by their values.
class OperatorTrace {
 public:
  using Step = std::function<State(const State& state, const State& extras)>;

  /// Of what `step` does on this thread with such inputs. @param parameters which it knows
  static OperatorTrace of(const State& state, const State& extras, const std::vector<at::Tensor>& parameters, const Step& step);

  /// Why what was seen is not all that the step may do, such as "they read numbers out of tensors, by aten::item"; empty: it is.
  const std::string& doubt() const noexcept { return doubt_; }

  /// What `step` does otherwise; empty: nothing. Operators on what depends on inputs are heard of, not carried out: this takes no longer than the
  /// layer's own code. @param parameters as many as before: the one in each place stands for the one in that place.
  std::string difference(const std::vector<at::Tensor>& parameters, const Step& step) const;

 private:
  friend class Recording;
  friend class Comparison;

  struct Argument {
    std::optional<int64_t> tensor = {};  // its number
    c10::IValue value = {};              // of what has no number
  };
  struct Result {
    bool is_list = false;
    std::vector<std::optional<int64_t>> tensors = {};  // their numbers; none: undefined
  };
  struct Call {
    c10::OperatorHandle op;
    std::vector<Argument> arguments = {};
    std::vector<Result> results = {};
  };
  std::vector<at::Tensor> tensors_;  // by number, without data: inputs, parameters, results
  State state_;                      // of them
  State extras_;
  std::vector<int64_t> parameters_;  // their numbers
  std::vector<Call> calls_;
  std::vector<Argument> given_;  // by the step
  std::string doubt_;
};

}  // namespace tw::layer_parallel
