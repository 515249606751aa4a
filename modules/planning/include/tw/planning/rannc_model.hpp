// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// The time of a step by RaNNC's cost model, to compare plans with its own: in each of M + S - 1 slots, the slowest active stage forward and the
/// slowest one backward, each with its transfer at 20 GiB/s; then the slowest all-reduce, at 10 GiB/s of the stage's gradients; no latency. Ref:
/// Tanaka et al. 2021, arXiv 2103.16063. @throws ContractError as predicted()
double rannc_step_s(const Plan& plan, const Profile& profile, const ParameterMemory& parameters = {});

}  // namespace tw::pipeline
