// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

#include "stage_figures.hpp"

namespace tw::pipeline {

/// The conditions under which each stage of a plan runs. @param schedule see schedule_of(const Plan&), here and below
std::vector<StageSetting> settings_of_stages(const Plan& plan, const Schedule& schedule);

/// Computes the figures that depend on several stages: transfers, exposed all-reduces, step time and bubble.
/// @param borders values that cross from each stage to the next
void predict_step(Plan& plan, const Schedule& schedule, const std::vector<Affine>& borders, const Cluster& cluster);

}  // namespace tw::pipeline
