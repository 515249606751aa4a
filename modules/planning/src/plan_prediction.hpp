// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// Computes the figures that depend on several stages: transfers, exposed all-reduces, step time and bubble.
/// @param borders values that cross from each stage to the next
void predict_step(Plan& plan, const std::vector<Affine>& borders, const Cluster& cluster);

}  // namespace tw::pipeline
