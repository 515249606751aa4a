// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/comm/mesh.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/pipeline/options.hpp>

namespace tw {

/// The options of a pipeline of one rank a stage, along `stage`.
inline pipeline::PipelineOptions stage_options(const Mesh& mesh, const ParallelOptions& options) {
  const int stages = mesh["stage"].size();
  const auto micro_batches = static_cast<int>(options.micro_batches);
  return {.schedule = pipeline::make_schedule(options.schedule, stages, micro_batches),
          .recompute = std::vector(static_cast<size_t>(stages), options.recompute),
          .seed = options.seed};
}

}  // namespace tw
