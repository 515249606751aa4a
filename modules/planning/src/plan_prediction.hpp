// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

#include "schedule_by_times.hpp"
#include "stage_figures.hpp"

namespace tw::pipeline {

/// The number of devices of a plan's schedule, each of which stands for all replicas of the stages on it.
inline int schedule_devices(const Plan& plan) { return static_cast<int>(plan.stages.size()) / stages_per_device(plan.schedule); }

/// The ranges of blocks of a plan's stages.
struct StageBlocks {
  const BlockCostTable& costs;
  std::vector<int> ends;  ///< by stage, the end of its blocks
};

/// The order of actions that a prediction simulates.
enum class ActionOrder {
  default_order,
  by_times,  // that of schedule_of(const Plan&): schedule_by_times() may replace the default order
};

/// Sets all figures of `plan`, and its own predictions. @param default_one the default schedule of the plan's kind
void predict(Plan& plan, const StageBlocks& blocks, const Cluster& cluster, const ParameterMemory& parameters, const DefaultSchedule& default_one,
             ActionOrder order);

}  // namespace tw::pipeline
