// SPDX-License-Identifier: Apache-2.0
// Executes the actions of plan_sweep(): messages, marches, right-hand sides.
#pragma once
#include <functional>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <tw/parallel_in_time/solver.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Input of a sweep, and where its results go.
struct SweepTask {
  SweepKind kind;
  int level;
  const Stored* starts;       ///< values where runs start
  const Stored* right_sides;  ///< f, added to the result of each step; null: none
  bool wants_all = false;     ///< also pass points inside runs to `take`
  bool last = false;          ///< see March
  /// Receives the values of `count` points of this rank, `spacing` apart: all C-points or all F-points.
  std::function<void(int64_t point, int64_t count, int64_t spacing, const State& values)> take;
};

class Sweeper {
 public:
  /// @param example one state, for shapes and dtypes. @param report counts steps, messages and bytes.
  Sweeper(const Communicator& comm, const LevelPlan& plan, Propagator& propagator, const State& example, Report& report);

  /// Collective.
  void run(const SweepTask& task);
  /// Waits until all sends have completed.
  void finish();

 private:
  class Run;

  const Communicator& comm_;
  const LevelPlan& plan_;
  Propagator& propagator_;
  State example_;  // stacked, one row
  Report& report_;
  std::vector<Work> sends_;
};

}  // namespace tw::layer_parallel
