// SPDX-License-Identifier: Apache-2.0
// The ordered actions of one rank in a sweep over one level. Pure: the solver executes them, and tests simulate many ranks in one process.
#pragma once
#include <cstdint>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

enum class SweepKind {
  intervals,  ///< steps from every C-point through its interval to the next C-point: F- and C-relaxation, and residuals
  fill,       ///< steps from every C-point to the F-points of its interval
  all,        ///< every step; each C-point's stored value starts a run of steps. On the coarsest level: one run, the serial solution
  each,       ///< every step separately, from the stored value of its first point
};

/// Independent runs of consecutive steps: run i, from 0 to count - 1, consists of the `length` steps from first + i * spacing on.
struct Runs {
  int64_t first = 0;
  int64_t count = 0;
  int64_t spacing = 0;
  int64_t length = 0;

  int64_t begin(int64_t run) const noexcept { return first + run * spacing; }
  /// The point that run `run` leads to.
  int64_t end(int64_t run) const noexcept { return begin(run) + length; }
  bool operator==(const Runs&) const = default;
};

struct Action {
  enum class Kind {
    send_point,      ///< sends the value of `point`, whose home is this rank, to `peer`, which executes the step from there
    receive_point,   ///< receives the value of `point` from its home `peer`
    march,           ///< executes `runs`
    send_result,     ///< sends the value of `point`, which this rank's last step has computed, to its home `peer`
    receive_result,  ///< receives the result for `point` from `peer`, which executed the step
  };
  Kind kind;
  int64_t point = 0;
  int peer = -1;
  Runs runs = {};

  bool operator==(const Action&) const = default;
};

/// The actions of `rank`, in order: values arrive before they are needed, and C-points are read before the sweep replaces them. Receives may be
/// posted earlier.
std::vector<Action> plan_sweep(const LevelPlan& plan, int level, SweepKind kind, int rank);

/// The cost of a sweep for one rank.
struct SweepCost {
  int64_t steps = 0;
  int64_t messages = 0;  ///< sent
};
SweepCost cost_of(const std::vector<Action>& sweep);

}  // namespace tw::layer_parallel
