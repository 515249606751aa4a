// SPDX-License-Identifier: Apache-2.0
// Networks and their adjoints as evolutions that a ParallelInTime solver solves.
#pragma once
#include <map>
#include <tw/layer_parallel/propagator.hpp>
#include <utility>
#include <vector>

#include "layer_stack.hpp"
#include "tape.hpp"

namespace tw::layer_parallel {

/// Layers `begin` to `begin` + steps of the plan as steps.
struct Evolution {
  LayerStack& stack;
  int64_t begin = 0;    ///< the layer of step 0
  double h = 1;         ///< step size of level 0
  bool random = false;  ///< layers draw random numbers
  uint64_t seed = 0;    ///< of those
  uint64_t block = 0;   ///< which block
  uint64_t call = 0;    ///< which forward pass

  /// Makes the steps of level 0 that begin at `first`, `first` + `spacing`, ..., `stride` times as long; see LayerStack::step().
  State step(int64_t first, int64_t spacing, int64_t stride, const State& states, const State& extras, const BatchedLayer* trace = nullptr,
             const std::vector<at::Tensor>& parameters = {}) const;
};

/// The forward direction. Records the last march over the finest level, if it is to be differentiated.
class ForwardPropagator : public Propagator {
 public:
  /// @param tape null: nothing is recorded. @param on_last called before the first step of the last march.
  ForwardPropagator(Evolution evolution, State extras, Tape* tape, std::function<void()> on_last);

  State march(const March& march, const State& from, const Between& between) override;
  /// The same for steps that no level has, such as layers beside the grid.
  State march(const Runs& runs, int64_t stride, bool record, const State& from, const Between& between);

 private:
  State record(const Runs& runs, const State& from, const BatchedLayer* trace);

  Evolution evolution_;
  State extras_;
  Tape* tape_;
  std::function<void()> on_last_;
};

/// The adjoint: step j of level l is the transposed Jacobian of the forward step over the same layers.
class AdjointPropagator : public Propagator {
 public:
  /// @param gradients by parameter of the stack: where gradients are added, like the stack; undefined: not wanted.
  AdjointPropagator(Evolution evolution, Tape& tape, std::vector<at::Tensor> gradients);

  State march(const March& march, const State& from, const Between& between) override;
  /// The transposed Jacobian of the record's run `row`, for layers beside the grid.
  State through(const Record& record, const State& cotangents, bool last);

 private:
  struct Place {
    size_t record;
    int64_t row;
  };
  State march_finest(const March& march, const State& from);
  State coarse_step(int64_t first_step, int64_t stride, const State& cotangent);

  Evolution evolution_;
  Tape& tape_;
  std::vector<at::Tensor> gradients_;
  std::map<int64_t, Place> places_;                                              // by first step
  std::map<std::pair<int64_t, int64_t>, std::pair<State, State>> coarse_steps_;  // by stride and step: leaves and results
};

}  // namespace tw::layer_parallel
