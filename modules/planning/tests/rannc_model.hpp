// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// Step time by RaNNC's cost model, to compare plans with RaNNC's own. In each of M + S - 1 slots, the slowest active stage counts forward and
/// backward, with its transfer at 20 GiB/s. Then the slowest all-reduce follows, at 10 GiB/s of the stage's gradients. Latency is zero. Ref: Tanaka
/// et al. 2021, arXiv 2103.16063. @throws ContractError as predicted()
inline double rannc_step_s(const Plan& plan, const Profile& profile) {
  constexpr double gibibyte = 1024.0 * 1024 * 1024;
  Cluster cluster{.devices = plan.devices()};
  cluster.between_stages.bytes_per_second = 20 * gibibyte;
  const Plan timed = predicted(plan, profile, cluster);
  const auto stages = static_cast<int>(timed.stages.size());
  double sum = 0;
  for (int slot = 0; slot < timed.micro_batches + stages - 1; ++slot) {
    double forward = 0;
    double backward = 0;
    for (int s = std::max(0, slot - timed.micro_batches + 1); s <= std::min(slot, stages - 1); ++s) {
      const StageFigures& figures = timed.stages[static_cast<size_t>(s)].figures;
      forward = std::max(forward, figures.forward_s + figures.transfer_s);
      backward = std::max(backward, figures.backward_s + figures.transfer_s);
    }
    sum += forward + backward;
  }
  double all_reduce = 0;
  for (const StagePlan& stage : timed.stages) {
    if (stage.replicas > 1) all_reduce = std::max(all_reduce, stage.figures.memory.gradients / (10 * gibibyte));
  }
  return sum + all_reduce;
}

}  // namespace tw::pipeline
