// SPDX-License-Identifier: Apache-2.0
// Problems for the planner: random ones with all their divisions into stages, and chains whose optimum is known.
#pragma once
#include "random_profile.hpp"

#include <functional>
#include <limits>

#include "stage_search.hpp"

namespace tw::pipeline::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Problem {
  Profile profile = {};
  Cluster cluster = {};
  PlanOptions options = {};
};

inline Problem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  Problem problem{.profile = random_profile(random, 3 + static_cast<int>(random() % 5))};
  double bytes = 0;
  for (const ProfiledParameter& parameter : problem.profile.parameters) bytes += 4 * parameter.bytes;
  for (const ProfiledOperator& op : problem.profile.operators) bytes += op.saved_bytes.of(8);
  problem.cluster = {.devices = 1 + static_cast<int>(random() % 4),
                     .memory_bytes = bytes * uniform(random, 0.1, 0.9),
                     .between_stages = {uniform(random, 0, 0.3), uniform(random, 30, 3000)},
                     .within_stage = {uniform(random, 0, 0.3), uniform(random, 10, 500)}};
  problem.options = {.batch = 4 + static_cast<int64_t>(random() % 5), .gap = 0};
  problem.options.parameters.sharded_optimizer = random() % 4 == 0;
  problem.cluster.overlapped_all_reduce = random() % 2 == 0;
  if (random() % 5 == 0) {  // many plans with equal sums
    for (ProfiledOperator& op : problem.profile.operators) {
      op.forward = {0, 1};
      op.backward = {0, 2};
    }
  }
  if (seed % 2 == 0) give_halves(problem.profile, random);
  return problem;
}

/// Calls `visit` for every cut of `blocks` blocks into stages, with every assignment of `devices` devices to them, from `least` to `most` each.
inline void for_all_stages(int blocks, int devices, std::vector<StageChoice>& stages, const std::function<void()>& visit, int least = 1,
                           int most = 1 << 20) {
  const int begin = stages.empty() ? 0 : stages.back().end;
  if (begin == blocks) visit();
  for (int end = begin + 1; end <= blocks; ++end) {
    for (int replicas = least; replicas <= std::min(most, devices); ++replicas) {
      stages.push_back({.end = end, .replicas = replicas});
      for_all_stages(blocks, devices - replicas, stages, visit, least, most);
      stages.pop_back();
    }
  }
}

/// A chain of equal operators, with one row per micro-batch on one replica.
inline Profile equal_chain(int operators, double parameter_bytes) {
  Profile profile{.hash = "chain", .input_bytes = {0, 1}};
  for (int i = 0; i < operators; ++i) {
    profile.parameters.push_back({concat("p", i), parameter_bytes});
    profile.operators.push_back({.name = concat("op", i),
                                 .inputs = {i - 1},
                                 .parameters = {i},
                                 .forward = {0, 1e-3},
                                 .backward = {0, 2e-3},
                                 .output_bytes = {0, 1},
                                 .saved_bytes = {0, 1}});
  }
  return profile;
}

}  // namespace tw::pipeline::test
