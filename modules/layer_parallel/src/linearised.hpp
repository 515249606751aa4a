// SPDX-License-Identifier: Apache-2.0
// Steps of several layers, each from its own state, and their derivatives.
#pragma once
#include <functional>
#include <memory>
#include <tw/parallel_in_time/propagator.hpp>
#include <utility>
#include <vector>

namespace tw::layer_parallel {

/// `count` indices from `begin` on, `spacing` apart.
struct Rows {
  int64_t begin = 0;
  int64_t count = 1;
  int64_t spacing = 1;
};

/// Inputs of a step other than states and parameters.
struct StepContext {
  const State& extras;
  std::function<void(int64_t layer)> seed;  ///< called before a layer that draws random numbers; empty: none does
};

/// Steps of n layers, linearised at the states where they started.
class Linearised {
 public:
  Linearised() = default;
  virtual ~Linearised() = default;
  Linearised(const Linearised&) = delete;
  Linearised& operator=(const Linearised&) = delete;

  /// Applies the transposed Jacobians of the steps `rows`, one for each cotangent. May be called again.
  /// @param gradients by parameter, [rows.count, ...]; parameter gradients are added to them. Undefined: not wanted; empty: none is wanted.
  virtual State transposed(const Rows& rows, const State& cotangents, const std::vector<at::Tensor>& gradients) const = 0;
};

/// Makes steps of one length, of states of one shape.
class Stepper {
 public:
  Stepper() = default;
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Whether steps of several layers run as one operation. If not, going from layer to layer first is faster, because states are otherwise stacked at
  /// every step.
  virtual bool runs_together() const { return true; }
  /// @param layers of the block, one for each state. @return the next states, stacked
  virtual State run(const Rows& layers, const State& states, const StepContext& with) = 0;
  /// The same, for differentiation. @param states must not change afterwards
  virtual std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) = 0;
};

}  // namespace tw::layer_parallel
