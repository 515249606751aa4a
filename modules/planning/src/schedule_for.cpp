// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/schedule_for.hpp>

#include <tw/base/contract.hpp>

#include "schedule_by_times.hpp"

namespace tw::pipeline {

Schedule schedule_for(ScheduleKind kind, int devices, int micro_batches, const std::vector<PassTimes>& times) {
  DefaultSchedule default_one = default_schedule(kind, devices, micro_batches);
  const int stages = default_one.schedule.stages;
  TW_EXPECTS(times.size() == static_cast<size_t>(stages), "there are ", stages, " stages, but times of ", times.size());
  std::optional<Schedule> by_times = schedule_by_times(default_one, times);
  return by_times ? std::move(*by_times) : std::move(default_one.schedule);
}

}  // namespace tw::pipeline
