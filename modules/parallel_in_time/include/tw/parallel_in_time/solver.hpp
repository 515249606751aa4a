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

/// Statistics of a solution. Values that cover all ranks are the same on every rank.
struct Report {
  int iterations = 0;
  std::vector<std::optional<double>> residuals;  ///< by iteration: 2-norm over all points of level 0 on all ranks; none: not computed
  double rounding = 0;                           ///< estimated rounding error of the last residual; 0 without residuals
  bool converged = false;                        ///< the last residual is below the tolerance, or the solution is serial and finite
  bool diverged = false;  ///< a residual or value is not finite, or the last residual exceeds the one before and the rounding error
  bool serial = false;    ///< the iterations diverged, and all steps were then made one after the other

  std::vector<int64_t> steps;                 ///< steps that this rank made, by level; includes the last relaxation and the serial solution
  std::vector<int64_t> messages;              ///< messages that this rank sent, by level, one per tensor of a state
  int64_t bytes = 0;                          ///< bytes that this rank sent
  std::vector<std::vector<Seconds>> seconds;  ///< wall time of this rank by level and Phase::Kind, including waiting
  Seconds last_relaxation{0};                 ///< the same, for the relaxation after the iterations
  Seconds waited{0};                          ///< the part of all these times spent waiting for messages

  /// Residual of iteration `i` divided by the previous one, if both are known.
  std::optional<double> convergence_factor(int i) const;
  /// A summary of a few lines.
  std::string describe() const;
};

/// A rank's part of the solution.
struct Solution {
  State points;  ///< stacked values at points `first`, `first + spacing`, ...: all points of this rank (spacing 1), or its C-points
  int64_t first = 0;
  int64_t spacing = 1;
  State end;  ///< the value at the last point, on the rank that has it; empty elsewhere
  Report report;
};

/// What to do if, after the last iteration, the residual has grown or is not finite.
enum class OnDivergence {
  report,           ///< only report it
  more_iterations,  ///< continue to twice the number of iterations, unless the residual is not finite
  serial,           ///< make all steps one after the other
};

/// Receives the begin and end of each phase, for timelines. @param name the phase, a string literal
using PhaseObserver =
    std::function<void(const char* name, int level, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Solves u_{k+1} = step(u_k), k = 0 to N - 1, over the ranks of a communicator. Mgrit and Newton are such solvers.
class ParallelInTime {
 public:
  virtual ~ParallelInTime() = default;

  virtual const LevelPlan& plan() const noexcept = 0;
  /// Sets the number of iterations of later solutions, the same on all ranks; 0: serial. Local.
  virtual void set_iterations(int iterations) = 0;
  /// Reports each later phase on this rank to `observer`. Local.
  virtual void observe(PhaseObserver observer) = 0;
  /// Collective. @param origin u_0 on the rank that has point 0; elsewhere any state of that shape and dtype.
  /// @param guess stacked values at this rank's C-points, such as Solution::points of an earlier call if these are the C-points; empty: zeros. Newton
  /// needs all points. MGRIT with skip_downcycle ignores the guess, because the first iteration replaces it.
  /// @throws whatever the propagator throws on this rank; the others then throw RevokedError. The solver cannot be used afterwards.
  virtual Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) = 0;
};

}  // namespace tw::layer_parallel
