// SPDX-License-Identifier: Apache-2.0
// pipeline/plan: planning time, against a fixed limit ("limit"), and against the time for 1,000 operators scaled linearly ("linear").
#include "measure.hpp"

#include <tw/planning/analytic.hpp>
#include <tw/planning/planner.hpp>

namespace {

using namespace tw::pipeline;
using tw::benchmark::Contest;

constexpr Rates rates{.flops_per_second = 1e14, .bytes_per_second = 1e12};
constexpr Link link{.latency_s = 5e-6, .bytes_per_second = 1.25e10};

Cluster cluster_of(int devices) { return {.devices = devices, .memory_bytes = 38255689728, .between_stages = link, .within_stage = link}; }

std::vector<double> measure(const Profile& profile, const Cluster& cluster, int64_t batch, int rounds) {
  std::vector<double> ms;
  for (int round = 0; round < rounds; ++round) {
    const tw::Stopwatch watch;
    const PlanResult result = plan(profile, cluster, {.batch = batch});
    ms.push_back(1e3 * watch.elapsed().count());
  }
  return ms;
}

void print(const Contest& contest, const std::string& name, const std::string& baseline, double baseline_ms, const std::vector<double>& ours) {
  tw::benchmark::Case of{.benchmark = "pipeline/plan", .name = name, .baseline = baseline, .rounds = static_cast<int>(ours.size())};
  tw::benchmark::print(contest, of, {baseline_ms}, ours);
}

void measure_all(const Contest& contest) {
  constexpr int rounds = 5;
  const Profile mlp = mlp_profile(5000, 100, 5000, 5000, {});
  print(contest, "mlp_5000x100_8_devices", "limit", 5000, measure(mlp, cluster_of(8), 64, rounds));
  const Profile gpt = transformer_profile(96, 4096, 32, 1024, 50257, rates);
  print(contest, "transformer_96_blocks_32_devices", "limit", 60000, measure(gpt, cluster_of(32), 256, rounds));
  double of_a_thousand = 0;
  for (const int64_t operators : {1000, 10000, 100000}) {
    constexpr int64_t of_a_block = 14;
    const Profile profile = transformer_profile(operators / of_a_block, 256, 4, 128, 1000, rates);
    const std::vector<double> ours = measure(profile, cluster_of(8), 64, rounds);
    if (operators == 1000) of_a_thousand = tw::benchmark::percentile(ours, 0.5);
    print(contest, std::to_string(operators) + "_operators", "linear", of_a_thousand * static_cast<double>(operators) / 1000, ours);
  }
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all, 1); }
