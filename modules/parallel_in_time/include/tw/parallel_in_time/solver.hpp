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

/// Statistics of a solution. The first six values cover all ranks and are the same on every rank; the others are those of this rank.
struct Report {
  int iterations = 0;
  std::vector<std::optional<double>> residuals;  ///< by iteration: 2-norm of the residual over all points of level 0; none: not computed
  double rounding = 0;                           ///< estimated rounding error of the last residual; 0 without residuals
  /// The last residual is below the tolerance and the solution is finite; or all steps were made one after the other (if `serial`: and are finite).
  bool converged = false;
  bool diverged = false;  ///< the last residual or the solution is not finite, or this residual exceeds both the previous one and `rounding`
  bool serial = false;    ///< the iterations diverged, and all steps were then made one after the other

  std::vector<int64_t> steps;                 ///< steps that this rank made, by level; includes the last relaxation and the serial solution
  std::vector<int64_t> messages;              ///< messages that this rank sent, by level, one per tensor of a state
  int64_t bytes = 0;                          ///< bytes that this rank sent
  std::vector<std::vector<Seconds>> seconds;  ///< wall time of this rank by level and Phase::Kind, including waiting
  Seconds last_relaxation{0};                 ///< wall time of this rank in the relaxation after the iterations, including waiting
  Seconds waited{0};                          ///< the part of `seconds` and `last_relaxation` spent waiting for messages

  /// Residual of iteration `i` (from 0) divided by the previous one, if both are known and the previous one is not 0.
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

/// What to do if the solution has diverged after the last iteration (Report::diverged).
enum class OnDivergence {
  report,           ///< only report it
  more_iterations,  ///< continue to twice the number of iterations, if the residual is finite
  serial,           ///< make all steps one after the other
};

/// Receives the begin and end time of each phase, for timelines. @param name the phase, a string literal
using PhaseObserver =
    std::function<void(const char* name, int level, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Solves u_{k+1} = step(u_k), k = 0 to N - 1, over the ranks of a communicator. Mgrit and Newton are such solvers.
class ParallelInTime {
 public:
  virtual ~ParallelInTime() = default;

  virtual const LevelPlan& plan() const noexcept = 0;
  /// Sets the number of iterations of later solutions; 0: serial. Pass the same number on all ranks. Local.
  virtual void set_iterations(int iterations) = 0;
  /// Reports each later phase on this rank to `observer`. Local.
  virtual void observe(PhaseObserver observer) = 0;
  /// Collective. @param origin u_0 on the rank that has point 0; elsewhere any state of that shape and dtype.
  /// @param guess stacked values at this rank's C-points (for Newton: at all its points), such as Solution::points of an earlier call if it has these
  /// points; empty: zeros. MGRIT with skip_downcycle ignores the guess, because the first iteration replaces it.
  /// @throws whatever the propagator throws on this rank; the other ranks then throw RevokedError. Afterwards the solver cannot be used again.
  virtual Solution solve(Propagator& propagator, const State& origin, const State& guess = {}) = 0;
};

}  // namespace tw::layer_parallel
