// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/parallel_in_time/propagator.hpp>
#include <tw/planning/cycle.hpp>
#include <vector>

namespace tw::layer_parallel {

/// How a solution came about; what is of all ranks is the same on all.
struct Report {
  int iterations = 0;
  std::vector<std::optional<double>> residuals;  ///< by iteration: the 2-norm over all points of level 0 on all ranks; none where not computed
  double rounding = 0;                           ///< what of the last residual may be rounding, if there is one
  bool converged = false;                        ///< the last residual is below the tolerance, or the solution is serial and finite
  bool diverged = false;  ///< a residual or value is not finite, or the last residual is larger than the one before by more than rounding
  bool serial = false;    ///< it diverged, and all steps were made one after the other instead

  std::vector<int64_t> steps;                 ///< this rank's, by level, the last relaxation included, and the serial solution
  std::vector<int64_t> messages;              ///< this rank sent, by level, with one for each tensor of a state
  int64_t bytes = 0;                          ///< this rank sent
  std::vector<std::vector<Seconds>> seconds;  ///< by level and Phase::Kind: wall time of this rank, waiting included
  Seconds last_relaxation{0};                 ///< the same, of what comes after the iterations
  Seconds waited{0};                          ///< of all this: until messages came

  /// Residual of iteration `i` over that of the one before, where both are known.
  std::optional<double> convergence_factor(int i) const;
  /// A few lines.
  std::string describe() const;
};

/// A rank's part of the solution.
struct Solution {
  State points;  ///< stacked: the values at `first`, `first + spacing`, ..., all of this rank's points with spacing 1, or its C-points
  int64_t first = 0;
  int64_t spacing = 1;
  State end;  ///< the value at the last point of all, on the rank that has it; empty elsewhere
  Report report;
};

/// What to do when the residual has grown, or is not finite, after the last iteration.
enum class OnDivergence {
  report,           ///< only report it
  more_iterations,  ///< twice as many, unless it is not finite
  serial,           ///< make all steps one after the other
};

/// Receives the begin and end of each phase, for timelines. @param name of a phase, a literal
using PhaseObserver =
    std::function<void(const char* name, int level, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Solves u_{k+1} = step(u_k), k = 0 to N - 1, over the ranks of a communicator. Mgrit and Newton are such solvers.
class ParallelInTime {
 public:
  virtual ~ParallelInTime() = default;

  virtual const LevelPlan& plan() const noexcept = 0;
  /// Of the solutions to come; on all ranks alike; 0: all steps one after the other. Local.
  virtual void set_iterations(int iterations) = 0;
  /// Reports each phase on this rank to `observer` from now on. Local.
  virtual void observe(PhaseObserver observer) = 0;
  /// Collective. @param origin u_0 on the rank that is home of point 0; elsewhere any state of that shape and dtype.
  /// @param guess stacked: the values at this rank's C-points, such as Solution::points of an earlier call if those have the spacing of C-points;
  /// empty: zeros. Of no influence on MGRIT with skip_downcycle, whose first iteration replaces it.
  /// @throws whatever the propagator throws on this rank; RevokedError on the others then. The solver is of no use any more after that.
  virtual Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) = 0;
};

}  // namespace tw::layer_parallel
