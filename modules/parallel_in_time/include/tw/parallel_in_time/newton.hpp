// SPDX-License-Identifier: Apache-2.0
// Newton's method for all steps at once: each iteration linearises the steps about a guess of all states, and solves the resulting linear recurrence.
#pragma once
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <tw/parallel_in_time/solver.hpp>

namespace tw::layer_parallel {

struct NewtonOptions {
  int iterations = 10;   ///< maximum number of iterations; 0: serial, all steps one after the other
  double tolerance = 0;  ///< stop after an iteration whose residual is below this; 0: run all iterations
  /// full: Newton's method, which converges quadratically near the solution. diagonal: a quasi-Newton method, which converges linearly; an iteration
  /// costs little more than the steps themselves.
  JacobianKind jacobian = JacobianKind::full;
  bool residuals = true;  ///< compute residuals; otherwise tolerance and divergence are not checked, and no all-reduce is made
  OnDivergence on_divergence = OnDivergence::report;

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(NewtonOptions& options, OptionVisitor& visitor);

/// Let u be the states before an iteration, f_k = step(u_{k-1}), and J_k the Jacobian of that step. The iteration computes the next states h by
/// solving
///   h_k = f_k + J_k * (h_{k-1} - u_{k-1})   for all k.
/// Where this correction of f_k overflows, h_k = f_k. The residual of the iteration is f - u at all points. After the iterations all steps are
/// made once more, each from its current state; their results are the solution. After i iterations, u_1 to u_{i+1} of the solution are exact,
/// whatever the steps. For linear steps, one iteration with full Jacobians is exact.
///
/// Ranks compose the linear recurrence of their steps in parallel; then one state is passed from rank to rank. In each iteration, a rank stores one
/// Jacobian per step. The report counts the linearisation as phase `relax`, and the recurrence as phase `solve`.
/// Ref: Lim et al. 2024, arXiv 2309.12252; diagonal: Gonzalez et al. 2024, arXiv 2407.19115.
class Newton : public ParallelInTime {
 public:
  /// Collective: all ranks pass the same plan and options. @param comm must outlive the solver, have the plan's number of ranks, and not be used for
  /// anything else during solve().
  /// @param plan its coarse levels are not used
  Newton(const Communicator& comm, const LevelPlan& plan, NewtonOptions options);
  Newton(Communicator&&, const LevelPlan&, NewtonOptions) = delete;

  const LevelPlan& plan() const noexcept override { return plan_; }
  const NewtonOptions& options() const noexcept { return options_; }
  void set_iterations(int iterations) override;
  void observe(PhaseObserver observer) override;
  /// @param propagator must be a LinearisingPropagator. @param guess states at all points of this rank, such as Solution::points; empty: zeros
  Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) override;

 private:
  const Communicator& comm_;
  LevelPlan plan_;
  NewtonOptions options_;
  PhaseObserver observer_;
  std::unique_ptr<Mgrit> serial_;  // one level
};

}  // namespace tw::layer_parallel
