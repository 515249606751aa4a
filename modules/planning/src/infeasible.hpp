// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "stage_search.hpp"

namespace tw::pipeline {

/// Explains why no plan fits the cluster: the operator that does not fit, by how many bytes, and how many devices would be enough.
/// @param settings the settings that were searched
std::string why_infeasible(const BlockCostTable& costs, const std::vector<SearchSetting>& settings, const Cluster& cluster,
                           const PlanOptions& options);

}  // namespace tw::pipeline
