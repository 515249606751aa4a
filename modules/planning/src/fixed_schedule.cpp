// SPDX-License-Identifier: Apache-2.0
#include "fixed_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/planning/list_schedule.hpp>
#include <tw/planning/schedule_check.hpp>

#include "schedule_times.hpp"
#include "times_check.hpp"

namespace tw::pipeline {
namespace {

constexpr double least_gain = 1e-3;  // a schedule by times must be shorter by this share: otherwise the known order is as good
constexpr size_t most_actions = size_t{1} << 22;

/// Times in 5040ths of the longest stage's passes, whole ones. Stages that differ by rounding errors alone are then equal; and since many numbers
/// divide 5040, passes whose times are in the ratio of small numbers still are.
std::vector<PassTimes> rounded(std::vector<PassTimes> times) {
  double longest = 0;
  for (const PassTimes& each : times) longest = std::max(longest, each.forward + each.backward);
  const auto round = [&](double time) { return std::round(time / longest * 5040); };
  for (PassTimes& each : times) {
    const double inputs = round(each.backward - each.weights);
    each = {
        .forward = round(each.forward), .backward = inputs + round(each.weights), .weights = round(each.weights), .transfer = round(each.transfer)};
  }
  return times;
}

/// By device, of how many pairs of a stage and a micro-batch it holds data at a time.
std::vector<int> held_by_devices(const Schedule& schedule) {
  std::vector<int> most;
  for (const std::vector<Action>& device : schedule.devices) {
    int now = 0;
    most.push_back(0);
    for (const Action& action : device) {
      now += (action.is_forward() ? 1 : 0) - (action.frees() ? 1 : 0);
      most.back() = std::max(most.back(), now);
    }
  }
  return most;
}

size_t actions_of(const Schedule& schedule) {
  size_t sum = 0;
  for (const std::vector<Action>& device : schedule.devices) sum += device.size();
  return sum;
}

bool takes_time(const PassTimes& times) { return times.forward + times.backward > 0; }

}  // namespace

Held held_by(const Schedule& schedule) { return {max_activations(schedule), max_waiting(schedule)}; }

FixedSchedule fixed_schedule(ScheduleKind kind, int devices, int micro_batches) {
  FixedSchedule made{kind, make_schedule(kind, devices, micro_batches), {}};
  made.held = held_by(made.schedule);
  return made;
}

std::optional<Schedule> schedule_by_times(const FixedSchedule& fixed, const std::vector<PassTimes>& times) {
  expect_times(times, fixed.schedule.micro_batches);
  if (stages_per_device(fixed.kind) == 1 || !std::ranges::all_of(times, takes_time)) return std::nullopt;
  const bool in_halves = fixed.schedule.has_halves();
  Schedule made = list_schedule({.micro_batches = fixed.schedule.micro_batches,
                                 .in_halves = in_halves,
                                 .device_of_stages = fixed.schedule.device_of_stages(),
                                 .times = rounded(times),
                                 .most_held = held_by_devices(fixed.schedule),
                                 .most_activations = fixed.held.activations,
                                 .most_waiting = in_halves ? fixed.held.waiting : std::vector<int>{}});
  if (times_of(made, times).duration >= (1 - least_gain) * times_of(fixed.schedule, times).duration) return std::nullopt;
  return made;
}

Schedule schedule_for(ScheduleKind kind, int devices, int micro_batches, const std::vector<PassTimes>& times) {
  FixedSchedule fixed = fixed_schedule(kind, devices, micro_batches);
  TW_EXPECTS(times.size() == static_cast<size_t>(fixed.schedule.stages), "there are ", fixed.schedule.stages, " stages, but times of ", times.size());
  std::optional<Schedule> by_times = schedule_by_times(fixed, times);
  return by_times ? std::move(*by_times) : std::move(fixed.schedule);
}

const FixedSchedule& FixedSchedules::get(ScheduleKind kind, int devices, int micro_batches) {
  const std::tuple key(kind, devices, micro_batches);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  FixedSchedule made = fixed_schedule(kind, devices, micro_batches);
  if (actions_ > most_actions) {
    known_.clear();
    actions_ = 0;
  }
  actions_ += actions_of(made.schedule);
  return known_.emplace(key, std::move(made)).first->second;
}

}  // namespace tw::pipeline
