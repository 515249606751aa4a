// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

#include "fixed_schedule.hpp"
#include "stage_figures.hpp"

namespace tw::pipeline {

/// The number of devices of a plan's schedule, each of which stands for all replicas of the stages on it.
inline int schedule_devices(const Plan& plan) { return static_cast<int>(plan.stages.size()) / stages_per_device(plan.schedule); }

/// The ranges of blocks of a plan's stages.
struct StageBlocks {
  const BlockCostTable& costs;
  std::vector<int> ends;  ///< by stage, the end of its blocks
};

/// Sets all figures of `plan`, and its own predictions.
/// @param fixed the schedule of the plan's kind. @param by_times whether schedule_by_times() may replace it, as in schedule_of(const Plan&)
void predict(Plan& plan, const StageBlocks& blocks, const Cluster& cluster, const ParameterMemory& parameters, const FixedSchedule& fixed,
             bool by_times = true);

}  // namespace tw::pipeline
