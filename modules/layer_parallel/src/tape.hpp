// SPDX-License-Identifier: Apache-2.0
// What a forward solution leaves for its adjoint.
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

/// Runs of the finest level. The adjoint is linearised at the states that their steps started from.
struct Record {
  Runs runs;
  State from;                                      ///< stacked: where the runs began
  std::vector<std::unique_ptr<Linearised>> steps;  ///< by position in the run; none: to be computed again from there
};

struct Tape {
  std::vector<Record> records;
  Stored c_states;  ///< values at the C-points that this rank's steps begin at, for coarse steps
  State extras;
  AutocastState autocast;                 ///< under which the steps are made, again too
  std::optional<TensorSnapshot> buffers;  ///< before the pass: steps that are computed again begin with the same
  bool recompute = false;                 ///< keep where runs began, and nothing of their steps
  bool retain = true;                     ///< the adjoint's last sweep leaves it as it is
};

}  // namespace tw::layer_parallel
