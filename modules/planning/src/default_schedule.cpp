// SPDX-License-Identifier: Apache-2.0
#include "default_schedule.hpp"

#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline {
namespace {

constexpr size_t max_kept_actions = size_t{1} << 22;

size_t actions_of(const Schedule& schedule) {
  size_t sum = 0;
  for (const std::vector<Action>& device : schedule.devices) sum += device.size();
  return sum;
}

}  // namespace

HeldMicroBatches held_by(const Schedule& schedule) { return {max_activations(schedule), max_waiting(schedule)}; }

DefaultSchedule default_schedule(ScheduleKind kind, int devices, int micro_batches) {
  DefaultSchedule made{kind, make_schedule(kind, devices, micro_batches), {}};
  made.held = held_by(made.schedule);
  return made;
}

const DefaultSchedule& DefaultSchedules::get(ScheduleKind kind, int devices, int micro_batches) {
  const std::tuple key(kind, devices, micro_batches);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  DefaultSchedule made = default_schedule(kind, devices, micro_batches);
  if (actions_ > max_kept_actions) {
    known_.clear();
    actions_ = 0;
  }
  actions_ += actions_of(made.schedule);
  return known_.emplace(key, std::move(made)).first->second;
}

}  // namespace tw::pipeline
