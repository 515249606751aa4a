// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tw/planning/sweep.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The state at a point, as one or several tensors. A stacked State holds the states of n points: each tensor has an additional first dimension n.
using State = std::vector<at::Tensor>;

/// Runs of steps of one level that a propagator makes in parallel.
struct March {
  const LevelPlan& plan;
  int level = 0;
  Runs runs;
  bool last = false;  ///< whether this is the last march over these steps in a solution; only its updates of layers' buffers count
};

/// Makes the steps of an evolution u_{k+1} = step(u_k). Steps must return equal results for equal arguments.
class Propagator {
 public:
  virtual ~Propagator() = default;

  /// Called between two steps of a march. Takes the stacked results of step `j` of each run, and returns the states from which the next step starts.
  using Between = std::function<State(int64_t j, State states)>;

  /// @param from the first states of the runs, stacked, [runs.count, ...]; must not be changed. @param between may be empty. @return the final states
  /// of the runs, stacked.
  virtual State march(const March& march, const State& from, const Between& between) = 0;
};

/// Which derivatives of a step are computed. A state's tensors have shapes [..., width]. Their leading dimensions are the same, and steps do not mix
/// entries along these.
enum class JacobianKind {
  full,      ///< all derivatives, with the state's tensors concatenated to one vector of S components; shape [..., S, S]
  diagonal,  ///< only derivatives between numbers with the same index in the state's k tensors, all of one width; shape [..., k, k, width]
};

/// The transposed Jacobians, as views. @param jacobian has the shape of `kind`
at::Tensor transposed(const at::Tensor& jacobian, JacobianKind kind);

struct Linearisation {
  State to;             ///< the results of the steps, stacked
  at::Tensor jacobian;  ///< d(result) / d(initial state) of each step, stacked; rows belong to components of the result
};

/// A propagator that also computes derivatives.
class LinearisingPropagator : public Propagator {
 public:
  /// Linearises adjacent steps of level 0, each independently: `march.runs` have length 1 and spacing 1. @param from as for march()
  virtual Linearisation linearise(const March& march, const State& from, JacobianKind kind) = 0;
};

/// Makes steps one by one with `step(march, k, state)`, for functions that cannot handle stacks; k is the step's index on march.level.
class StepwisePropagator : public Propagator {
 public:
  using Step = std::function<State(const March& march, int64_t step, const State& from)>;
  explicit StepwisePropagator(Step step) : step_(std::move(step)) {}

  State march(const March& march, const State& from, const Between& between) override;

 private:
  Step step_;
};

}  // namespace tw::layer_parallel
