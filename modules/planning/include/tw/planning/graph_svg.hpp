// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// A picture of the operators of `profile`, a box each, from the model's input downwards, none next to its inputs; each stage has a colour. What
/// goes from one stage to another is drawn thick, with the bytes that a micro-batch of Plan::rows() has there. Operators without batch data, which
/// every stage computes for itself, have no stage's colour. Pure.
/// @throws ContractError with the first of problems_of(plan, profile, plan.devices())
std::string graph_svg(const Profile& profile, const Plan& plan);

}  // namespace tw::pipeline
