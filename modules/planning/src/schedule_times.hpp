// SPDX-License-Identifier: Apache-2.0
// The simulation of a schedule that is known to have no problems.
#pragma once
#include <algorithm>
#include <tw/base/numbers.hpp>
#include <tw/planning/simulation.hpp>

#include "links.hpp"

namespace tw::pipeline {

/// Arrival times of the inputs of actions. Forward passes of the first stage and backward passes of the last one wait for no other stage.
class Arrivals {
 public:
  Arrivals(const Schedule& schedule, const std::vector<PassTimes>& times)
      : links_(schedule.device_of_stages(), times), stages_(times.size()), micro_batches_(at(schedule.micro_batches)) {
    if (times.empty()) return;
    for (std::vector<double>* arrivals : {&forward_, &backward_}) arrivals->assign(times.size() * micro_batches_, infinity);
    std::fill_n(forward_.begin(), micro_batches_, 0.0);
    std::fill_n(backward_.end() - static_cast<std::ptrdiff_t>(micro_batches_), micro_batches_, 0.0);
  }

  /// Infinite if not known yet.
  double of(const Action& action) const {
    if (action.kind == Action::Kind::backward_weight) return 0;
    return (action.is_forward() ? forward_ : backward_)[index(action.stage, action.micro_batch)];
  }
  /// Sends the results of an action that ends at `end`.
  void send(const Action& action, double end) {
    const int to = action.is_forward() ? action.stage + 1 : action.stage - 1;
    if (action.kind == Action::Kind::backward_weight || to < 0 || at(to) == stages_) return;
    (action.is_forward() ? forward_ : backward_)[index(to, action.micro_batch)] = links_.send(action.stage, to, end);
  }

 private:
  size_t index(int stage, int micro_batch) const { return at(stage) * micro_batches_ + at(micro_batch); }

  Links links_;
  size_t stages_;
  size_t micro_batches_;
  std::vector<double> forward_;  // by receiving stage and micro-batch
  std::vector<double> backward_;
};

/// Simulates `schedule`, as simulate() does, without checking it. Calls visit(device, span) for each action, in the order of its device.
template <class Visit>
void run_schedule(const Schedule& schedule, const std::vector<PassTimes>& times, const Visit& visit) {
  Arrivals arrivals(schedule, times);
  std::vector<size_t> next(schedule.devices.size(), 0);
  std::vector<double> free(schedule.devices.size(), 0);
  // A valid schedule always has a device that can continue.
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t device = 0; device < schedule.devices.size(); ++device) {
      for (const std::vector<Action>& actions = schedule.devices[device]; next[device] < actions.size(); ++next[device]) {
        const Action& action = actions[next[device]];
        const double there = arrivals.of(action);
        if (there == infinity) break;
        const double begin = std::max(free[device], there);
        free[device] = begin + duration_of(action, times[at(action.stage)]);
        arrivals.send(action, free[device]);
        visit(device, Simulation::Span{action, begin, free[device]});
        progress = true;
      }
    }
  }
}

/// What a simulation says about a device.
struct DeviceTimes {
  double last_begin = 0;  ///< of its last action
  double last_end = 0;
  double busy = 0;
};

struct ScheduleTimes {
  double duration = 0;
  std::vector<DeviceTimes> devices;
};

/// The times of a schedule without problems.
inline ScheduleTimes times_of(const Schedule& schedule, const std::vector<PassTimes>& times) {
  ScheduleTimes found{0, std::vector<DeviceTimes>(schedule.devices.size())};
  run_schedule(schedule, times, [&](size_t device, const Simulation::Span& span) {
    found.devices[device] = {span.begin, span.end, found.devices[device].busy + span.end - span.begin};
    found.duration = std::max(found.duration, span.end);
  });
  return found;
}

}  // namespace tw::pipeline
