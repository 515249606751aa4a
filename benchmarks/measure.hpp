// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::benchmark {

/// Value below which `share` of `values` lies, by linear interpolation.
inline double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

struct Case {
  std::string benchmark;  ///< such as "data_parallel/step"
  std::string name;       ///< such as "lenet"
  std::string baseline;   ///< such as "mpi_per_parameter"
  int rounds = 20;
  int steps = 10;                            ///< calls in a round
  std::function<void()> baseline_step;
  std::function<void()> our_step;
  double baseline_units = 1;                 ///< what a call does, in common units; times are per unit
  double our_units = 1;
};

/// Measures both in turn, round by round, after a warm-up of two rounds, and prints one JSON line on rank 0. Collective.
inline void compare(const Communicator& comm, const Case& of) {
  const auto round = [&](const std::function<void()>& step) {
    comm.barrier();
    const Stopwatch watch;
    for (int i = 0; i < of.steps; ++i) step();
    comm.barrier();
    return 1e3 * watch.elapsed().count() / of.steps;
  };
  std::vector<double> baseline;
  std::vector<double> ours;
  for (int i = -2; i < of.rounds; ++i) {
    const bool baseline_first = i % 2 == 0;
    double first = round(baseline_first ? of.baseline_step : of.our_step);
    double second = round(baseline_first ? of.our_step : of.baseline_step);
    if (!baseline_first) std::swap(first, second);
    if (i < 0) continue;
    baseline.push_back(first / of.baseline_units);
    ours.push_back(second / of.our_units);
  }
  if (comm.rank() != 0) return;
  const double baseline_ms = percentile(baseline, 0.5);
  const double ours_ms = percentile(ours, 0.5);
  std::cout << nlohmann::ordered_json{{"benchmark", of.benchmark},
                                      {"case", of.name},
                                      {"ranks", comm.size()},
                                      {"baseline", of.baseline},
                                      {"baseline_ms", baseline_ms},
                                      {"ours_ms", ours_ms},
                                      {"ratio", baseline_ms / ours_ms},
                                      {"rounds", of.rounds},
                                      {"spread", (percentile(ours, 0.9) - percentile(ours, 0.1)) / ours_ms}}
            << std::endl;
}

}  // namespace tw::benchmark
