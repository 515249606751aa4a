// SPDX-License-Identifier: Apache-2.0
// Newton's method for all steps at once: each iteration linearises the steps about a guess of all states, and solves the resulting linear recurrence.
#pragma once
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <tw/parallel_in_time/solver.hpp>

namespace tw::layer_parallel {

struct NewtonOptions {
  int iterations = 10;   ///< maximum; 0: serial, all steps one after the other
  double tolerance = 0;  ///< stop after an iteration whose residual is below this; 0: make all iterations
  /// full: Newton's method, converges quadratically near the solution. diagonal: a quasi-Newton method, converges linearly; an iteration costs little
  /// more than the steps.
  JacobianKind jacobian = JacobianKind::full;
  bool residuals = true;  ///< compute residuals; otherwise tolerance and divergence are not checked, and no all-reduce is made
  OnDivergence on_divergence = OnDivergence::report;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(NewtonOptions& options, OptionVisitor& visitor);

/// With the current states u, f_k = step(u_{k-1}) and its Jacobian J_k, an iteration solves h_k = f_k + J_k (h_{k-1} - u_{k-1}) for all k. The
/// residual of an iteration is f - u at all points, for the states that it begins with. After the iterations all steps are made once more, each from
/// its current state; this is the result. After i iterations the first i + 1 states are exact for any steps. For linear steps, one iteration with
/// full Jacobians is exact. States that overflow restart from f.
///
/// Ranks compose the linear recurrence of their steps in parallel; then one state is passed from rank to rank. Each iteration stores one Jacobian per
/// step of a rank. In the report, phase `relax` is the linearisation, and `solve` the recurrence.
/// Ref: Lim et al. 2024, arXiv 2309.12252; diagonal: Gonzalez et al. 2024, arXiv 2407.19115.
class Newton : public ParallelInTime {
 public:
  /// Collective: all ranks pass the same plan and options. @param comm borrowed; has the plan's number of ranks, and no other communication during
  /// solve().
  /// @param plan its coarse levels are not used
  Newton(const Communicator& comm, const LevelPlan& plan, NewtonOptions options);
  Newton(Communicator&&, const LevelPlan&, NewtonOptions) = delete;

  const LevelPlan& plan() const noexcept override { return plan_; }
  const NewtonOptions& options() const noexcept { return options_; }
  void set_iterations(int iterations) override;
  void observe(PhaseObserver observer) override;
  /// @param propagator a LinearisingPropagator. @param guess all points of this rank, such as Solution::points; empty: zeros
  Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) override;

 private:
  const Communicator& comm_;
  LevelPlan plan_;
  NewtonOptions options_;
  PhaseObserver observer_;
  std::unique_ptr<Mgrit> serial_;  // one level
};

}  // namespace tw::layer_parallel
