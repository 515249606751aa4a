// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/comm/mesh.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/pipeline/options.hpp>

namespace tw {

/// The schedule of a pipeline of blocks, which are not planned.
inline pipeline::ScheduleKind schedule_of_blocks(const ParallelOptions& options) {
  return options.schedule.value_or(pipeline::ScheduleKind::one_forward_one_backward);
}

/// The options of a pipeline of blocks along `stage`, with one rank for each device of the schedule.
inline pipeline::PipelineOptions stage_options(const Mesh& mesh, const ParallelOptions& options) {
  const pipeline::Schedule schedule =
      pipeline::make_schedule(schedule_of_blocks(options), mesh["stage"].size(), static_cast<int>(options.micro_batches));
  return {.schedule = schedule, .recompute = std::vector(static_cast<size_t>(schedule.stages), options.recompute), .seed = options.seed};
}

}  // namespace tw
