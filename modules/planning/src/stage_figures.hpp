// SPDX-License-Identifier: Apache-2.0
// Times and memory of a stage: the one place that knows the formulas.
#pragma once
#include <optional>
#include <tw/base/numbers.hpp>
#include <tw/planning/plan.hpp>

#include "stretches.hpp"

namespace tw::pipeline {

/// What a stage is given to work on.
struct StageSetting {
  int64_t rows = 1;  ///< of a micro-batch, on one replica
  int replicas = 1;
  int in_flight = 1;
  Recompute recompute = Recompute::none;
};

/// A stretch as a stage, at this many rows.
struct StageLoad {
  const Stretch& stretch;
  double input_bytes = 0;    ///< of the rows, from the stage before; of the model, for the first one
  double output_bytes = 0;   ///< to the next stage; 0 for the last one
  bool is_first = false;     ///< receives nothing
  double segment_bytes = 0;  ///< see Stretches::segments_peak()
};

/// Blocks [begin, end). @param segment_bytes where they are known already
StageLoad stage_load(const Stretches& stretches, int begin, int end, int64_t rows, std::optional<double> segment_bytes = {});

/// All but transfer_s and exposed_s, which depend on the neighbours.
StageFigures figures_of(const StageLoad& load, const StageSetting& setting, const Cluster& cluster, const ParameterMemory& parameters);

/// Rows of a replica.
inline int64_t share_of_rows(int64_t rows, int replicas) { return divide_up(rows, replicas); }

/// Micro-batches whose activations the stage holds at once. @param to_end stages from it to the end, itself too
inline int in_flight(ScheduleKind schedule, int micro_batches, int to_end) {
  return schedule == ScheduleKind::gpipe || micro_batches < to_end ? micro_batches : to_end;
}

/// Of the values that cross `border`, when this many replicas on one side send to this many on the other; the side with fewer has the most to carry.
inline double transfer_seconds(const Affine& border, int64_t rows, int replicas, int others, const Link& link) {
  return link.transfer(border.of(static_cast<double>(share_of_rows(rows, replicas < others ? replicas : others))));
}

}  // namespace tw::pipeline
