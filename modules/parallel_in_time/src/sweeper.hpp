// SPDX-License-Identifier: Apache-2.0
// Executes what plan_sweep() says: messages, marches, right-hand sides.
#pragma once
#include <functional>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <tw/parallel_in_time/solver.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What a sweep reads, and where its results go.
struct SweepTask {
  SweepKind kind;
  int level;
  const Stored* starts;       ///< values that runs start from
  const Stored* right_sides;  ///< f, added to whatever a step leads to; null: none
  bool wants_all = false;     ///< tell `take` of the points inside of runs too
  bool last = false;          ///< see March
  /// Given what `count` points `spacing` apart get, homed here: all C-points or all F-points.
  std::function<void(int64_t point, int64_t count, int64_t spacing, const State& values)> take;
};

class Sweeper {
 public:
  /// @param example one state, for shapes and dtypes. @param report counts steps, messages and bytes.
  Sweeper(const Communicator& comm, const LevelPlan& plan, Propagator& propagator, const State& example, Report& report);

  /// Collective.
  void run(const SweepTask& task);
  /// Returns when all that was sent has left.
  void finish();

 private:
  class Run;

  const Communicator& comm_;
  const LevelPlan& plan_;
  Propagator& propagator_;
  State example_;  // stacked, of one row
  Report& report_;
  std::vector<Work> sends_;
};

}  // namespace tw::layer_parallel
