// SPDX-License-Identifier: Apache-2.0
// How long a schedule takes, and what devices do when.
#pragma once
#include <string>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// What one micro-batch takes on a stage; all in one unit of time.
struct PassTimes {
  double forward = 1;
  double backward = 2;
  double transfer =
      0;  ///< of activations to the next stage, and of their cotangents back; one at a time in each direction; devices go on computing meanwhile
};

struct Simulation {
  /// One action of a device.
  struct Span {
    Action action;
    double begin = 0;
    double end = 0;
  };
  std::vector<std::vector<Span>> devices;
  double duration = 0;  ///< of all

  /// How long the device does nothing.
  double bubble(size_t device) const;
};

/// Executes `schedule` on clocks: each action begins when its device is free and what it takes has arrived.
/// @param times by stage. @throws ContractError for a schedule that problems_of() refuses
Simulation simulate(const Schedule& schedule, const std::vector<PassTimes>& times);

/// A Gantt chart of `width` characters: a line a device, the micro-batch's last digit while it goes forward and a letter, from a, while it goes back.
std::string gantt_text(const Simulation& simulation, int width = 100);
/// The same as a picture.
std::string gantt_svg(const Simulation& simulation);

}  // namespace tw::pipeline
