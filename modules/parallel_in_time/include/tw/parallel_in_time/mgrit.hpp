// SPDX-License-Identifier: Apache-2.0
// Multigrid reduction in time (MGRIT): several ranks make dependent steps at the same time, by iterations that correct a coarse solution.
#pragma once
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/solver.hpp>

namespace tw::layer_parallel {

struct MgritOptions {
  int iterations = 10;   ///< maximum number of iterations; 0: serial, all steps one after the other
  double tolerance = 0;  ///< stop after an iteration whose residual is below this; 0: run all iterations
  CycleOptions cycle = {};
  PerLevel<double> weights = 1.0;  ///< weight w of C-relaxations; 1.3 to 1.8 may help with FCF-relaxation
  bool residuals = true;           ///< compute residuals; otherwise tolerance and divergence are not checked, and no all-reduce is made
  OnDivergence on_divergence = OnDivergence::report;

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(MgritOptions& options, OptionVisitor& visitor);

/// The last relaxation, on level 0, which follows the iterations.
struct FinalRelaxation {
  bool last_c_relaxation = false;  ///< also relax the C-points; then the last relaxation makes every step once, as networks need it
  bool weighted = true;            ///< use level 0's weight for these C-points; false for networks, because their gradient ignores weights
  bool store_all = false;          ///< keep all points, not only C-points
};
void visit(FinalRelaxation& final_relaxation, OptionVisitor& visitor);

/// Multigrid reduction in time with the full approximation scheme (FAS). After k iterations, the first k * (1 + nu) intervals of level 0 are exact,
/// or the first (k - 1) * (1 + nu) with CycleOptions::skip_downcycle; nu is CycleOptions::relaxations on level 0.
/// Ref: Falgout et al. 2014, SISC 36:6; Gunther et al. 2020, SIMODS 2:1, for networks.
class Mgrit : public ParallelInTime {
 public:
  /// Collective: all ranks pass the same plan, options and final relaxation. @param comm must outlive the solver, have the plan's number of ranks,
  /// and not be used for anything else during solve().
  Mgrit(const Communicator& comm, LevelPlan plan, MgritOptions options, FinalRelaxation final_relaxation = {});
  Mgrit(Communicator&&, LevelPlan, MgritOptions, FinalRelaxation = {}) = delete;

  const LevelPlan& plan() const noexcept override { return plan_; }
  const MgritOptions& options() const noexcept { return options_; }
  void set_iterations(int iterations) override;
  void observe(PhaseObserver observer) override { observer_ = std::move(observer); }
  Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) override;

 private:
  const Communicator& comm_;
  LevelPlan plan_;
  MgritOptions options_;
  FinalRelaxation final_relaxation_;
  PhaseObserver observer_;
};

}  // namespace tw::layer_parallel
