// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "default_schedule.hpp"
#include "stage_search.hpp"

namespace tw::pipeline {

/// The settings to search, without limits of several stages on a device. The first one is of the kind of schedule that needs the least memory.
std::vector<SearchSetting> settings_of(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options);

/// Adds what depends on the order of several stages on a device. Making a long order takes much longer than the lower_bound() of a setting.
SearchSetting with_limits(SearchSetting setting, const BlockCostTable& costs, DefaultSchedules& schedules);

/// The share of each stage in a device. Stages on the same device are searched as if each had its own device, with an equal share of the memory.
Cluster share_of(Cluster cluster, ScheduleKind schedule);

}  // namespace tw::pipeline
