// SPDX-License-Identifier: Apache-2.0
#include "schedule_by_times.hpp"

#include <algorithm>
#include <cmath>
#include <tw/planning/list_schedule.hpp>
#include <tw/planning/schedule_check.hpp>

#include "schedule_times.hpp"
#include "times_check.hpp"

namespace tw::pipeline {
namespace {

constexpr double min_gain = 1e-3;  // a schedule by times must be shorter by this share: otherwise the default order is as good

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

bool takes_time(const PassTimes& times) { return times.forward + times.backward > 0; }

}  // namespace

std::optional<Schedule> schedule_by_times(const DefaultSchedule& default_one, const std::vector<PassTimes>& times) {
  const auto& [kind, schedule, held] = default_one;
  expect_times(times, schedule.micro_batches);
  if (stages_per_device(kind) == 1 || !std::ranges::all_of(times, takes_time)) return std::nullopt;
  const bool in_halves = schedule.has_halves();
  Schedule made = list_schedule({.micro_batches = schedule.micro_batches,
                                 .in_halves = in_halves,
                                 .device_of_stages = schedule.device_of_stages(),
                                 .times = rounded(times),
                                 .most_held = max_held_by_devices(schedule),
                                 .most_activations = held.activations,
                                 .most_waiting = in_halves ? held.waiting : std::vector<int>{}});
  if (times_of(made, times).duration >= (1 - min_gain) * times_of(schedule, times).duration) return std::nullopt;
  return made;
}

}  // namespace tw::pipeline
