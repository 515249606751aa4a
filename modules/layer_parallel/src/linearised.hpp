// SPDX-License-Identifier: Apache-2.0
// Steps of several layers, each from a state of its own, and their derivative.
#pragma once
#include <functional>
#include <memory>
#include <tw/parallel_in_time/propagator.hpp>
#include <utility>
#include <vector>

namespace tw::layer_parallel {

/// `count` of something, `spacing` apart.
struct Rows {
  int64_t begin = 0;
  int64_t count = 1;
  int64_t spacing = 1;
};

/// What a step takes beside states and parameters.
struct StepContext {
  const State& extras;
  std::function<void(int64_t layer)> seed;  ///< called before a layer that draws random numbers; empty: none does
};

/// Steps of n layers at the states that they started from.
class Linearised {
 public:
  Linearised() = default;
  virtual ~Linearised() = default;
  Linearised(const Linearised&) = delete;
  Linearised& operator=(const Linearised&) = delete;

  /// The transposed Jacobians of the steps `rows`, of which there are as many as cotangents. May be called again.
  /// @param gradients by parameter, [rows.count, ...], to which those of the parameters are added. Undefined: not wanted; empty: none is.
  virtual State transposed(const Rows& rows, const State& cotangents, const std::vector<at::Tensor>& gradients) const = 0;
};

/// Makes steps of one length, of states of one shape.
class Stepper {
 public:
  Stepper() = default;
  virtual ~Stepper() = default;
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// Whether steps of several layers are one operation. Otherwise it is better to go from layer to layer first, or states are stacked at every step.
  virtual bool runs_together() const { return true; }
  /// @param layers of the block, as many as states. @return where they lead, stacked
  virtual State run(const Rows& layers, const State& states, const StepContext& with) = 0;
  /// The same, to be differentiated. @param states must not change afterwards
  virtual std::pair<State, std::unique_ptr<Linearised>> linearise(const Rows& layers, const State& states, const StepContext& with) = 0;
};

}  // namespace tw::layer_parallel
