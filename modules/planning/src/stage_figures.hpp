// SPDX-License-Identifier: Apache-2.0
// Times and memory of a stage. All formulas are here.
#pragma once
#include <algorithm>
#include <optional>
#include <tw/base/numbers.hpp>
#include <tw/planning/plan.hpp>

#include "block_costs.hpp"

namespace tw::pipeline {

/// The conditions under which a stage runs.
struct StageSetting {
  int64_t rows = 1;  ///< rows of a micro-batch on one replica
  int replicas = 1;
  int in_flight = 1;  ///< number of micro-batches whose activations are held
  Recompute recompute = Recompute::none;
  int waiting = 0;  ///< number of micro-batches that wait for the weights' half of their backward pass
};

/// A range of blocks as a stage, for a number of rows.
struct StageLoad {
  const BlockCosts& costs;
  double input_bytes = 0;    ///< bytes of the rows from the previous stage; for the first stage, of the model's input
  double output_bytes = 0;   ///< bytes sent to the next stage; 0 for the last one
  bool is_first = false;     ///< the first stage receives nothing
  double segment_bytes = 0;  ///< see BlockCostTable::segments_peak()
  double parameter_bytes = 0;
  double tied_bytes = 0;  ///< bytes of parameters that other devices have too
};

/// The load of blocks [begin, end) if other stages are on other devices. @param segment_bytes if already known
StageLoad stage_load(const BlockCostTable& costs, int begin, int end, int64_t rows, std::optional<double> segment_bytes = {});

/// All figures except transfer_s and exposed_s, which depend on the neighbours.
StageFigures figures_of(const StageLoad& load, const StageSetting& setting, const Cluster& cluster, const ParameterMemory& parameters);

/// The largest number of rows on a replica.
inline int64_t share_of_rows(int64_t rows, int replicas) { return divide_up(rows, replicas); }

/// Transfer time of the values that cross `border`, between stages with these numbers of replicas. The side with fewer replicas limits it.
inline double transfer_seconds(const Affine& border, int64_t rows, int replicas, int others, const Link& link) {
  return link.transfer(border.of(static_cast<double>(share_of_rows(rows, replicas < others ? replicas : others))));
}

}  // namespace tw::pipeline
