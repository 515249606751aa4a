// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/planning/sweep.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What a point holds, as one or several tensors. Stacked: the states of n points, each tensor with a first dimension of n more.
using State = std::vector<at::Tensor>;

/// Steps of one level to be made alongside.
struct March {
  const LevelPlan& plan;
  int level = 0;
  Runs runs;
  bool last = false;  ///< of all marches over these steps in this solution: the one in which layers update what they keep
};

/// Makes the steps of an evolution u_{k+1} = step(u_k). It must return equal results for equal arguments.
class Propagator {
 public:
  virtual ~Propagator() = default;

  /// Between two steps of a march: given what step `j` of each run led to, stacked, returns what the next one starts from.
  using Between = std::function<State(int64_t j, State states)>;

  /// @param from stacked, [runs.count, ...]; not to be changed. @param between may be empty. @return where the runs end, stacked.
  virtual State march(const March& march, const State& from, const Between& between) = 0;
};

/// Which derivatives of a step are looked at. A state is tensors of [..., width] each, with the same dimensions before the last; steps do not mix
/// these.
enum class JacobianKind {
  full,      ///< all: of one vector of S components, the tensors of the state side by side. [..., S, S]
  diagonal,  ///< of each unit by itself: k tensors of one width are k numbers a unit. [..., k, k, width]
};

/// The transposed Jacobians, views. @param jacobian in the shape of `kind`
at::Tensor transposed(const at::Tensor& jacobian, JacobianKind kind);

struct Linearisation {
  State to;             ///< where the steps lead to, stacked
  at::Tensor jacobian;  ///< of each step, its result by what it starts from; rows are the result's
};

/// Steps that know their derivatives.
class LinearisingPropagator : public Propagator {
 public:
  /// Steps of level 0 next to each other, each on its own: `march.runs` are of length 1 and spacing 1. @param from as of march()
  virtual Linearisation linearise(const March& march, const State& from, JacobianKind kind) = 0;
};

/// Makes steps one by one with `step(level, k, state)`, for steps that do not handle stacks.
class StepwisePropagator : public Propagator {
 public:
  using Step = std::function<State(const March& march, int64_t step, const State& from)>;
  explicit StepwisePropagator(Step step) : step_(std::move(step)) {}

  State march(const March& march, const State& from, const Between& between) override;

 private:
  Step step_;
};

}  // namespace tw::layer_parallel
