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
  double transfer = 0;  ///< transfer of activations to the next stage, or of cotangents back; one at a time per direction, while devices compute.
                        ///< Ignored if the next stage is on the same device

  bool operator==(const PassTimes&) const = default;
};

/// The time of an action of a stage with these times.
double duration_of(const Action& action, const PassTimes& times) noexcept;

struct Simulation {
  /// One action of a device.
  struct Span {
    Action action;
    double begin = 0;
    double end = 0;
  };
  std::vector<std::vector<Span>> devices;
  double duration = 0;  ///< from the start of the first action to the end of the last

  /// The part of `duration` in which the device is idle.
  double bubble(size_t device) const;
};

/// Simulates `schedule`: each action begins when its device is free and its inputs have arrived.
/// @param times one per stage. @throws ContractError for a wrong number of `times`, or a schedule with problems, see schedule_check.hpp
Simulation simulate(const Schedule& schedule, const std::vector<PassTimes>& times);

/// A Gantt chart with one line per device; its time axis is `width` characters wide. A forward pass is drawn as the last digit of its micro-batch. A
/// backward pass, or its inputs' half, is drawn as a lower-case letter (a for micro-batch 0), and a weights' half as a capital letter.
std::string gantt_text(const Simulation& simulation, int width = 100);
/// The Gantt chart as an SVG drawing.
std::string gantt_svg(const Simulation& simulation);

}  // namespace tw::pipeline
