// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/comm/mesh.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/pipeline/options.hpp>

namespace tw {

/// The options of a pipeline along `stage`, with one rank for each device of the schedule.
inline pipeline::PipelineOptions stage_options(const Mesh& mesh, const ParallelOptions& options) {
  const pipeline::Schedule schedule = pipeline::make_schedule(options.schedule, mesh["stage"].size(), static_cast<int>(options.micro_batches));
  return {.schedule = schedule, .recompute = std::vector(static_cast<size_t>(schedule.stages), options.recompute), .seed = options.seed};
}

}  // namespace tw
