// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/rannc_model.hpp>

#include <algorithm>

namespace tw::pipeline {

double rannc_step_s(const Plan& plan, const Profile& profile, const ParameterMemory& parameters) {
  constexpr double gibibyte = 1024.0 * 1024 * 1024;
  Cluster cluster{.devices = plan.devices()};
  cluster.between_stages.bytes_per_second = 20 * gibibyte;
  const Plan timed = predicted(plan, profile, cluster, parameters);
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
