// SPDX-License-Identifier: Apache-2.0
// A plan for a cluster that you do not have: stages, replicas and micro-batches for a GPT with 1.3 billion parameters on 16 devices, and the cost of
// smaller devices. It needs neither MPI nor a model: the profile is calculated, and a search finds the plan.
//
// Build:   cmake --build build/release --target 31_plan_for_a_cluster
// Run:     build/release/bin/31_plan_for_a_cluster
// Expect:  the plan for devices of 40 GB with its reasons; then a line for each of several sizes: the time of a step, or why nothing fits
#include <iostream>
#include <string>
#include <tw/base/error.hpp>
#include <tw/planning/analytic.hpp>
#include <tw/planning/planner.hpp>

namespace {

using namespace tw::pipeline;

constexpr double giga = 1e9;

/// 16 devices, with 100 Gbit/s between any two of them.
Cluster cluster_of(double memory_bytes) {
  const Link link{.latency_s = 5e-6, .bytes_per_second = 12.5 * giga};
  return {.devices = 16, .memory_bytes = memory_bytes, .between_stages = link, .within_stage = link};
}

double parameters_of(const Profile& profile) {
  double bytes = 0;
  for (const ProfiledParameter& parameter : profile.parameters) bytes += parameter.bytes;
  return bytes / sizeof(float);
}

void print_costs(const Profile& profile, double gigabytes, const PlanOptions& options) {
  std::cout << gigabytes << " GB a device: ";
  try {
    const Plan best = plan(profile, cluster_of(gigabytes * giga), options).best();
    std::cout << 1e3 * best.step_s << " ms a step, " << best.micro_batches << " micro-batches, " << name_of(best.schedule) << ", devices by stage";
    for (const StagePlan& stage : best.stages) std::cout << ' ' << stage.replicas;
    std::cout << '\n';
  } catch (const tw::Error& error) {
    const std::string what = error.what();
    std::cout << what.substr(0, what.find('\n')) << '\n';
  }
}

}  // namespace

int main() {
  const Rates rates{.flops_per_second = 1e14, .bytes_per_second = 1.5e12};
  const Profile gpt = transformer_profile(/*blocks=*/24, /*width=*/2048, /*heads=*/16, /*sequence=*/1024, /*vocabulary=*/50257, rates);
  std::cout << parameters_of(gpt) / giga << " billion parameters, " << gpt.operators.size() << " operators; Adam in float32\n\n";

  const PlanOptions options{.batch = 128};
  std::cout << explain(plan(gpt, cluster_of(40 * giga), options)) << '\n';
  for (const double gigabytes : {80., 40., 24., 8., 4., 1.}) print_costs(gpt, gigabytes, options);
}
