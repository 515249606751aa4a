// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "stage_search.hpp"

namespace tw::pipeline {

/// Why no plan holds on the cluster: the operator that does not fit, by how many bytes, and how many devices would do.
/// @param settings those that were searched
std::string why_infeasible(const Stretches& stretches, const std::vector<SearchSetting>& settings, const Cluster& cluster,
                           const PlanOptions& options);

}  // namespace tw::pipeline
