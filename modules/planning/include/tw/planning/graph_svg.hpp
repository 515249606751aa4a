// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// Returns an SVG drawing of the operators of `profile` as boxes, from the model's input downwards; every operator is below its inputs. Each stage
/// has a colour. Edges between stages are thick, and labelled with the bytes that they carry for a micro-batch of Plan::rows() rows. Operators
/// without batch data have no stage colour, since every stage that uses them computes them. Pure.
/// @throws ContractError with the first problem if problems_of(plan, profile, plan.devices()) finds any
std::string graph_svg(const Profile& profile, const Plan& plan);

}  // namespace tw::pipeline
