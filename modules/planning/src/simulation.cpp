// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/simulation.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline {
namespace {

/// Arrival times of the inputs of actions. Forward passes of the first stage and backward passes of the last one wait for no other stage.
class Arrivals {
 public:
  Arrivals(const std::vector<PassTimes>& times, const Schedule& schedule) : times_(times), device_of_(schedule.device_of_stages()) {}

  /// Infinite if not known yet.
  double of(const Action& action) const {
    if (action.kind == Action::Kind::backward_weight) return 0;
    const bool is_forward = action.is_forward();
    const int from = is_forward ? action.stage - 1 : action.stage + 1;
    if (from < 0 || from >= static_cast<int>(times_.size())) return 0;
    const auto found = arrivals_.find({is_forward, from, action.micro_batch});
    return found == arrivals_.end() ? infinity : found->second;
  }
  void note(const Action& action, double end) {
    if (action.kind == Action::Kind::backward_weight) return;
    const bool is_forward = action.is_forward();
    const int border = is_forward ? action.stage : action.stage - 1;
    if (border < 0 || border + 1 >= static_cast<int>(times_.size())) return;
    const auto before = static_cast<size_t>(border);
    double& arrival = arrivals_[{is_forward, action.stage, action.micro_batch}];
    if (device_of_[before] == device_of_[before + 1]) {
      arrival = end;
      return;
    }
    double& link_free =
        links_[is_forward ? std::pair(device_of_[before], device_of_[before + 1]) : std::pair(device_of_[before + 1], device_of_[before])];
    link_free = std::max(link_free, end) + times_[before].transfer;
    arrival = link_free;
  }

 private:
  const std::vector<PassTimes>& times_;
  std::vector<int> device_of_;                             // by stage
  std::map<std::tuple<bool, int, int>, double> arrivals_;  // by direction, sender and micro-batch
  std::map<std::pair<int, int>, double> links_;            // by sending and receiving device: when the link is free
};

}  // namespace

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
  std::vector<double> free(schedule.devices.size(), 0);
  Arrivals arrivals(times, schedule);
  // A valid schedule always has a device that can continue.
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t device = 0; device < schedule.devices.size(); ++device) {
      auto& spans = result.devices[device];
      while (spans.size() < schedule.devices[device].size()) {
        const Action& action = schedule.devices[device][spans.size()];
        const double there = arrivals.of(action);
        if (!std::isfinite(there)) break;
        const double begin = std::max(free[device], there);
        free[device] = begin + duration_of(action, times[static_cast<size_t>(action.stage)]);
        spans.push_back({action, begin, free[device]});
        arrivals.note(action, free[device]);
        result.duration = std::max(result.duration, free[device]);
        progress = true;
      }
    }
  }
  return result;
}

}  // namespace tw::pipeline
