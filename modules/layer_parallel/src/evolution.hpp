// SPDX-License-Identifier: Apache-2.0
// Networks and their adjoints as evolutions in time, for a ParallelInTime solver.
#pragma once
#include <map>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

#include "layer_stack.hpp"
#include "tape.hpp"

namespace tw::layer_parallel {

/// Layers `begin` to `begin` + number of steps of the plan, as time steps.
struct Evolution {
  LayerStack& stack;
  int64_t begin = 0;    ///< layer of step 0
  double h = 1;         ///< step size of level 0
  bool random = false;  ///< layers draw random numbers
  uint64_t seed = 0;    ///< seed of the random layers
  uint64_t block = 0;   ///< index of the block
  uint64_t call = 0;    ///< number of the forward pass

  /// The layers of the given steps of level 0.
  Rows layers(const Rows& steps) const { return {begin + steps.begin, steps.count, steps.spacing}; }
};

/// The forward direction. Records the last march over the finest level if a backward pass follows.
class ForwardPropagator : public Propagator {
 public:
  /// @param tape null: nothing is recorded. @param on_last called before the first step of the last march.
  ForwardPropagator(Evolution evolution, State extras, Tape* tape, std::function<void()> on_last);

  State march(const March& march, const State& from, const Between& between) override;
  /// The same for steps that are on no level, such as layers outside the grid.
  State march(const Runs& runs, int64_t stride, bool record, const State& from, const Between& between);

 private:
  Evolution evolution_;
  State extras_;
  Tape* tape_;
  std::function<void()> on_last_;
};

/// The adjoint: step j of level l is the transposed Jacobian of the forward step over the same layers.
class AdjointPropagator : public Propagator {
 public:
  /// Steps of a record: `runs` runs from `run` on, at the positions `begin` to `end` - 1 of each.
  struct Part {
    int64_t run = 0;
    int64_t runs = 1;
    int64_t begin = 0;
    int64_t end = 0;
  };
  /// @param gradients by parameter, of the stack's shape: gradients are added to them; undefined: not wanted.
  AdjointPropagator(Evolution evolution, Tape& tape, std::vector<at::Tensor> gradients);

  State march(const March& march, const State& from, const Between& between) override;
  /// Applies the transposed Jacobian of some steps of a record. @param last whether to add to the gradients. @return stacked, in the order of the
  /// record's runs
  State through(Record& record, const Part& part, const State& cotangents, bool last);

 private:
  /// The place in the tape where a step of level 0 was recorded.
  struct Place {
    size_t record;
    int64_t run;
    int64_t position;
  };
  /// All steps of one length on this rank.
  struct CoarseSteps {
    int64_t first = 0;  ///< step of level 0 at which the first one begins
    std::unique_ptr<Linearised> steps;
  };
  State march_finest(const March& march, const State& from);
  State march_coarse(const March& march, const State& from, const Between& between);
  /// The steps up to the end of `part`, linearised again, for a record that keeps no linearised steps.
  std::vector<std::unique_ptr<Linearised>> linearised_again(const Record& record, const Part& part) const;
  const CoarseSteps& coarse_steps(const LevelPlan& plan, int level);
  std::vector<at::Tensor> gradients_of(const Rows& layers) const;

  Evolution evolution_;
  Tape& tape_;
  std::vector<at::Tensor> gradients_;
  std::map<int64_t, Place> places_;    // by step
  std::map<int, CoarseSteps> coarse_;  // by level
};

}  // namespace tw::layer_parallel
