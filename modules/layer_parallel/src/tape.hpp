// SPDX-License-Identifier: Apache-2.0
// What a forward solution leaves for its adjoint.
#pragma once
#include <tw/layer_parallel/propagator.hpp>
#include <vector>

#include "sweeper.hpp"

namespace tw::layer_parallel {

/// Runs of the finest level with their graph. The adjoint is linearised at the states that their steps started from.
struct Record {
  Runs runs;
  State from;                                       ///< leaves, stacked
  State to;                                         ///< stacked
  std::vector<std::vector<at::Tensor>> parameters;  ///< leaves, stacked, by position in the run; empty: the layers' own
};

struct Tape {
  std::vector<Record> records;
  Stored c_states;  ///< values at the C-points that this rank's steps begin at, for coarse steps
  State extras;
};

}  // namespace tw::layer_parallel
