// SPDX-License-Identifier: Apache-2.0
// What a forward solution keeps for its adjoint.
#pragma once
#include <memory>
#include <optional>
#include <tw/autograd/autocast.hpp>
#include <tw/parallel_in_time/propagator.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <vector>

#include "linearised.hpp"

namespace tw::layer_parallel {

/// Runs on the finest level, with the states at which the adjoint linearises their steps.
struct Record {
  Runs runs;
  State from;                                      ///< stacked states at the beginning of the runs
  std::vector<std::unique_ptr<Linearised>> steps;  ///< by position in the run; empty: recomputed from `from`
};

struct Tape {
  std::vector<Record> records;
  Stored c_states;  ///< values at the C-points where this rank's steps begin, for coarse steps
  State extras;
  AutocastState autocast;                 ///< autocast state of all steps, recomputed ones included
  std::optional<TensorSnapshot> buffers;  ///< buffers before the pass, restored before steps are recomputed
  bool recompute = false;                 ///< keep the beginnings of runs only, not their steps
  bool retain = true;                     ///< the adjoint's last sweep leaves the tape intact
};

}  // namespace tw::layer_parallel
