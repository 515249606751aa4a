// SPDX-License-Identifier: Apache-2.0
// What one rank does in a sweep over one level, in order. Pure: the solver executes it, and tests simulate it for many ranks in one process.
#pragma once
#include <cstdint>
#include <tw/planning/level_plan.hpp>
#include <vector>

namespace tw::layer_parallel {

enum class SweepKind {
  intervals,  ///< from every C-point over the whole interval, into the next C-point: F- and C-relaxation, and residuals
  fill,       ///< from every C-point to all F-points after it
  all,        ///< both: every step once. On the coarsest level: the serial solution
  each,       ///< every step on its own, from the stored value of its point
};

/// Several runs of steps that do not depend on each other: run i makes the steps first + i * spacing + (0 to length - 1).
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
    send_point,      ///< sends the value of `point`, whose home this rank is, to `peer`, which executes the step from there
    receive_point,   ///< the other side
    march,           ///< makes `runs`
    send_result,     ///< sends what the last step led to, at `point`, to `peer`, its home
    receive_result,  ///< the other side
  };
  Kind kind;
  int64_t point = 0;
  int peer = -1;
  Runs runs = {};

  bool operator==(const Action&) const = default;
};

/// In this order all values are there in time, and values of C-points are read before the sweep replaces them; receives may be posted ahead.
std::vector<Action> plan_sweep(const LevelPlan& plan, int level, SweepKind kind, int rank);

/// What a sweep costs a rank.
struct SweepCost {
  int64_t steps = 0;
  int64_t messages = 0;  ///< sent
};
SweepCost cost_of(const std::vector<Action>& sweep);

}  // namespace tw::layer_parallel
