// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "search_settings.hpp"

namespace tw::pipeline {

/// A plan without its operators, which are long lists, and the candidate that it comes from.
struct SimulatedPlan {
  Candidate candidate;
  Plan plan;
};

/// Searches all settings, simulates the best candidates of each, and sorts them: first the plan to choose, see plan(), then the others by step time.
/// @param schedules made meanwhile.
std::vector<SimulatedPlan> search_plans(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options,
                                        const std::vector<SearchSetting>& settings, FixedSchedules& schedules);

/// Adds the operators.
void name_operators(SimulatedPlan& simulated, const BlockCostTable& costs);

}  // namespace tw::pipeline
