// SPDX-License-Identifier: Apache-2.0
// Newton's method for all steps at once: each iteration linearises them about a guess of all states, and solves what is then a linear recurrence.
#pragma once
#include <memory>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <tw/parallel_in_time/solver.hpp>

namespace tw::layer_parallel {

struct NewtonOptions {
  int iterations = 10;   ///< at most; 0: all steps one after the other
  double tolerance = 0;  ///< stop after an iteration whose residual is below; 0: make all iterations
  /// full: Newton's method, quadratic near the solution. diagonal: a quasi-Newton method, linear; an iteration costs little more than the steps.
  JacobianKind jacobian = JacobianKind::full;
  bool residuals = true;  ///< compute them; otherwise neither tolerance nor divergence are looked at, and no all-reduce is made
  OnDivergence on_divergence = OnDivergence::report;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(NewtonOptions& options, OptionVisitor& visitor);

/// With u the states so far, f_k = step(u_{k-1}) and J_k its Jacobian, an iteration solves h_k = f_k + J_k (h_{k-1} - u_{k-1}) for all k. The
/// residual of an iteration is f - u, that of the states it begins with, at all points. After the iterations all steps are made once more, each from
/// where it begins: that is the result. After i iterations the first i + 1 states are exact, whatever the steps are; if these are linear, one is
/// enough with full Jacobians. States that overflow start again from f.
///
/// Ranks compose the linear recurrence of their steps alongside; then one state travels over each border between ranks, one after the other. Each
/// iteration keeps a Jacobian for each step of a rank. In the report, relax is what linearises and solve the recurrence.
/// Ref: Lim et al. 2024, arXiv 2309.12252; diagonal: Gonzalez et al. 2024, arXiv 2407.19115.
class Newton : public ParallelInTime {
 public:
  /// Collective: all ranks pass the same plan and options. @param comm borrowed; the plan's number of ranks; carries nothing else while solve()
  /// runs.
  /// @param plan coarse levels are of no use here
  Newton(const Communicator& comm, const LevelPlan& plan, NewtonOptions options);

  const LevelPlan& plan() const noexcept override { return plan_; }
  const NewtonOptions& options() const noexcept { return options_; }
  void set_iterations(int iterations) override;
  void observe(PhaseObserver observer) override;
  /// @param propagator a LinearisingPropagator. @param guess of all points of this rank, such as Solution::points; empty: zeros
  Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) override;

 private:
  const Communicator& comm_;
  LevelPlan plan_;
  NewtonOptions options_;
  PhaseObserver observer_;
  std::unique_ptr<Mgrit> serial_;  // one level
};

}  // namespace tw::layer_parallel
