// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// Fills in what depends on several stages: transfers, exposed all-reduces, step and bubble.
/// @param borders values that cross between a stage and the next
void predict_step(Plan& plan, const std::vector<Affine>& borders, const Cluster& cluster);

}  // namespace tw::pipeline
