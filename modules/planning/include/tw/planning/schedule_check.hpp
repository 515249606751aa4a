// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// Problems of a schedule; empty: it runs to completion. Checks for stages on two devices or none, and for computations that are missing, duplicate
/// or out of order. If there are none of these, simulates the action lists to find deadlocks.
/// @param channel_capacity maximum number of micro-batches in flight from one stage to another before the sender waits, at least 1
std::vector<std::string> problems_of(const Schedule& schedule, int channel_capacity = 1);

/// For each stage, the maximum number of micro-batches of which it holds data at a time. A stage holds data of a micro-batch from the forward pass to
/// the end of the backward pass or, in two halves, of the weights' half. @param schedule without problems, see problems_of()
std::vector<int> max_in_flight(const Schedule& schedule);
/// For each device, the maximum number of pairs of a stage and a micro-batch of which it holds data at a time, as in max_in_flight().
std::vector<int> max_held_by_devices(const Schedule& schedule);
/// For each stage, the maximum number of micro-batches whose activations it holds: from the forward pass to the end of the backward pass or, in two
/// halves, of the inputs' half. @param schedule without problems, see problems_of()
std::vector<int> max_activations(const Schedule& schedule);
/// For each stage, the maximum number of micro-batches that wait for the weights' half of their backward pass, or have one of its halves running; 0
/// for whole backward passes. @param schedule without problems, see problems_of()
std::vector<int> max_waiting(const Schedule& schedule);

}  // namespace tw::pipeline
