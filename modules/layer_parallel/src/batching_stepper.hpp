// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layer_stack.hpp"
#include "linearised.hpp"
#include "operator_trace.hpp"

namespace tw::layer_parallel {

/// Runs steps of several layers as one operation if all layers do the same as the first one, and one by one otherwise. What a C++ layer does shows
/// only when it is called. Each layer is therefore traced once per pass before it runs, or only once with Batching::always.
class BatchingStepper : public Stepper {
 public:
  /// @param states, extras examples of shape and dtype; states are stacked.
  BatchingStepper(const LayerStack& stack, const BlockOptions& options, const State& states, const State& extras, double dt);

  bool runs_together() const override { return together_ != nullptr; }
  State run(const Rows& layers, const State& states, const StepContext& with) override;
  std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) override;
  /// Why the layers do not run together; empty: they do.
  const std::string& unbatchable() const noexcept { return unbatchable_; }
  /// The pass that made the last steps.
  uint64_t last_pass() const noexcept { return last_pass_; }

 private:
  void find(const State& states, const State& extras);
  std::unique_ptr<Stepper> found(const State& states, const State& extras);
  Stepper& stepper_for(const Rows& layers, const State& states, const State& extras);
  OperatorTrace::Step step_of(int64_t layer) const;

  const LayerStack& stack_;
  BlockOptions options_;
  double dt_;
  std::unique_ptr<Stepper> one_by_one_;
  std::unique_ptr<Stepper> together_;
  std::string unbatchable_;
  std::optional<OperatorTrace> seen_;      // trace of the layers that run together
  std::vector<uint64_t> checked_in_pass_;  // by layer: the last pass in which its trace matched
  uint64_t last_pass_ = 0;
};

}  // namespace tw::layer_parallel
