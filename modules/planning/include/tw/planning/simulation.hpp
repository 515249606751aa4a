// SPDX-License-Identifier: Apache-2.0
// Simulates a schedule: its duration and the timeline of each device.
#pragma once
#include <string>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// Times of one micro-batch on a stage, all in the same unit.
struct PassTimes {
  double forward = 1;
  double backward = 2;
  double weights = 0;   ///< the part of `backward` that the weights' half takes
  double transfer = 0;  ///< transfer to the next stage, and of cotangents back; one at a time per direction, overlaps computation
};

struct Simulation {
  /// One action of a device.
  struct Span {
    Action action;
    double begin = 0;
    double end = 0;
  };
  std::vector<std::vector<Span>> devices;
  double duration = 0;  ///< from the start of the first action to the end of the last

  /// Idle time of the device.
  double bubble(size_t device) const;
};

/// Simulates `schedule`: each action begins when its device is free and its inputs have arrived.
/// @param times by stage. @throws ContractError for a schedule with problems, see problems_of()
Simulation simulate(const Schedule& schedule, const std::vector<PassTimes>& times);

/// A Gantt chart of `width` characters with one line per device. A forward pass is drawn as the last digit of its micro-batch, a backward pass as
/// a lower-case letter (a for micro-batch 0), and the weights' half of a backward pass as a capital letter.
std::string gantt_text(const Simulation& simulation, int width = 100);
/// The same as an SVG drawing.
std::string gantt_svg(const Simulation& simulation);

}  // namespace tw::pipeline
