// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/simulation.hpp>

#include <tw/base/contract.hpp>
#include <tw/planning/schedule_check.hpp>

#include "schedule_times.hpp"

namespace tw::pipeline {

double duration_of(const Action& action, const PassTimes& times) noexcept {
  switch (action.kind) {
    case Action::Kind::forward: return times.forward;
    case Action::Kind::backward: return times.backward;
    case Action::Kind::backward_input: return times.backward - times.weights;
    default: return times.weights;
  }
}

double Simulation::bubble(size_t device) const {
  double busy = 0;
  for (const Span& span : devices.at(device)) busy += span.end - span.begin;
  return duration - busy;
}

Simulation simulate(const Schedule& schedule, const std::vector<PassTimes>& times) {
  TW_EXPECTS(times.size() == static_cast<size_t>(schedule.stages), "`times` has ", times.size(),
             " entries, expected one for each stage of the schedule: ", schedule.stages);
  const std::vector<std::string> problems = problems_of(schedule, std::max(schedule.micro_batches, 1));
  TW_EXPECTS(problems.empty(), problems.front());
  Simulation result;
  result.devices.resize(schedule.devices.size());
  run_schedule(schedule, times, [&](size_t device, const Simulation::Span& span) {
    result.devices[device].push_back(span);
    result.duration = std::max(result.duration, span.end);
  });
  return result;
}

}  // namespace tw::pipeline
