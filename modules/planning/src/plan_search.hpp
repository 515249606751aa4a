// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "search_settings.hpp"

namespace tw::pipeline {

/// A plan without its operators, which are long lists, and the candidate that it comes from.
struct SimulatedPlan {
  Candidate candidate;
  Plan plan;
};

struct SearchResult {
  std::vector<SimulatedPlan> plans = {};  ///< first the plan to choose, see plan(), then the others by step time
  int simulated = 0;                      ///< number of simulated plans; some are not among `plans`
};

/// Searches all settings, simulates the best candidates of each, and sorts them. @param schedules made meanwhile
SearchResult search_plans(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, const std::vector<SearchSetting>& settings,
                          DefaultSchedules& schedules);

/// Adds the operators.
void name_operators(SimulatedPlan& simulated, const BlockCostTable& costs);

}  // namespace tw::pipeline
