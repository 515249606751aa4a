// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/planning/simulation.hpp>

#include "default_schedule.hpp"

namespace tw::pipeline {

/// A schedule of the same kind for stages with these times, which holds no more than the default one on any stage; empty if none was found that is
/// shorter. @throws ContractError for times that are none
std::optional<Schedule> schedule_by_times(const DefaultSchedule& default_one, const std::vector<PassTimes>& times);

}  // namespace tw::pipeline
