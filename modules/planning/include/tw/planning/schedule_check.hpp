// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// What is wrong with a schedule; empty: it runs to its end. Looks for stages on two devices or none, computations that are missing, made twice or
/// out of order, and, by executing the lists, for devices that wait for each other.
/// @param channel_capacity how many micro-batches may be in flight between two stages before the sender waits, at least 1
std::vector<std::string> problems_of(const Schedule& schedule, int channel_capacity = 1);

/// By stage: of how many micro-batches it holds the activations, at most, from their forward to their backward pass. Of a schedule without problems.
std::vector<int> max_in_flight(const Schedule& schedule);

}  // namespace tw::pipeline
