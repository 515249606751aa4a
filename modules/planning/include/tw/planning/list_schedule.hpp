// SPDX-License-Identifier: Apache-2.0
// A schedule for any assignment of stages to devices and for stages of any length, by list scheduling. Pure.
#pragma once
#include <tw/planning/schedule.hpp>
#include <tw/planning/simulation.hpp>
#include <vector>

namespace tw::pipeline {

struct ListOptions {
  int micro_batches = 1;
  bool in_halves = false;                  ///< whether backward passes run in two halves
  std::vector<int> device_of_stages = {};  ///< the device of each stage; each device needs at least one stage
  std::vector<PassTimes> times = {};       ///< one per stage
  /// One per device: of how many pairs of a stage and a micro-batch it may hold data at a time, at least its number of stages. Data is held from the
  /// forward pass to the end of the backward pass, or of its weights' half.
  std::vector<int> most_held = {};
  /// One per stage: the maximum of max_activations(), and of max_waiting() in two halves; at least 1 each. Empty: only `most_held` limits them.
  std::vector<int> most_activations = {};
  std::vector<int> most_waiting = {};
};

/// Simulates the devices; a free device begins the action that it can begin first. If it can begin several at once, it takes a forward pass or a
/// (half of a) backward pass that others wait for, of the latest stage first, and a weights' half only if there is nothing else. A forward pass
/// begins only if the device then holds data of at most `most_held`, less what later stages on the same device will need. Two rules for that reserve,
/// two orders of forward and backward passes, and two lengths of time for which a device waits for the more urgent action are tried; the shortest
/// schedule wins, and among equally short ones that of the first rule. The result is a function of the arguments alone, so all ranks get the same
/// one. Takes O(actions * (log(devices) + square of the stages on a device)). Ref: the greedy method of Qi et al. 2023, arXiv 2401.10241, section 4,
/// for any placement of stages.
/// @throws ContractError for options that do not match each other, and for times that are negative, not finite, or infinite in sum over all
/// micro-batches
Schedule list_schedule(const ListOptions& options);

}  // namespace tw::pipeline
