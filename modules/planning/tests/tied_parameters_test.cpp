// SPDX-License-Identifier: Apache-2.0
// A parameter of several stages costs memory once on each device, and a transfer only between devices.
#include "problems.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "coarsening.hpp"

namespace tw::pipeline {
namespace tied_parameters_test {

using enum ScheduleKind;
using test::equal_chain;

constexpr double small = 1000;
constexpr double large = 1e6;
constexpr Cluster cluster{.devices = 4, .between_stages = {0, 1e6}, .within_stage = {0, 1e5}};

/// Operators with a parameter of their own, of which those of `users` also use a large one.
Profile chain_with(const std::vector<int>& users, int operators = 4) {
  Profile profile = equal_chain(operators, small);
  profile.parameters.push_back({"tied", large});
  for (const int user : users) profile.operators[static_cast<size_t>(user)].parameters.push_back(operators);
  return profile;
}

/// A stage for each operator.
Plan plan_of(const Profile& profile, ScheduleKind schedule, int replicas) {
  Plan plan{.hash = profile.hash, .batch = 8, .micro_batches = 4, .schedule = schedule};
  for (int op = 0; op < static_cast<int>(profile.operators.size()); ++op) plan.stages.push_back({.operators = {op}, .replicas = replicas});
  return predicted(plan, profile, cluster);
}

struct Case {
  ScheduleKind schedule;
  std::vector<int> users;
  std::vector<int> counted;  // stages in which the parameter takes memory
  bool is_tied;              // between devices: each of these stages sends gradients and receives their sum
};

TEST(TiedParameters, CountOnceOnEachDevice) {
  const std::vector<Case> cases{{zero_bubble_v, {0, 3}, {0}, false},         {interleaved, {0, 2}, {0}, false},
                                {zero_bubble_v, {0, 1, 2, 3}, {0, 1}, true}, {zero_bubble_v, {0, 2, 3}, {0, 2}, true},
                                {interleaved, {0, 3}, {0, 3}, true},         {one_forward_one_backward, {0, 3}, {0, 3}, true}};
  for (const auto& [schedule, users, counted, is_tied] : cases) {
    for (const int replicas : {1, 2}) {
      if (replicas == 2 && schedule == one_forward_one_backward) continue;  // there are four devices
      const Plan plan = plan_of(chain_with(users), schedule, replicas);
      for (int stage = 0; stage < 4; ++stage) {
        const bool has = std::ranges::count(counted, stage) > 0;
        const double bytes = small + (has ? large : 0);
        const StageFigures& figures = plan.stages[static_cast<size_t>(stage)].figures;
        EXPECT_EQ(figures.memory.weights, bytes) << name_of(schedule) << ", stage " << stage;
        EXPECT_EQ(figures.memory.optimizer, 2 * bytes) << name_of(schedule) << ", stage " << stage;
        const double tie_s = has && is_tied ? 2 * large / 1e6 : 0;
        EXPECT_NEAR(figures.all_reduce_s, tie_s + ring_all_reduce(replicas, bytes, cluster.within_stage), 1e-9)
            << name_of(schedule) << ", stage " << stage;
      }
    }
  }
}

/// In ZB-V, the first and the last stage are on one device, which the search knows.
TEST(TiedParameters, OfZeroBubbleVsEndsAddNothingToTheLoad) {
  const Profile tied = chain_with({1, 6}, 8);
  const Profile untied = [] {
    Profile profile = chain_with({1}, 8);
    profile.parameters.push_back({"other", large});
    profile.operators[6].parameters.push_back(9);
    return profile;
  }();
  const OperatorOrder order(tied);
  const OperatorOrder untied_order(untied);
  const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
  const BlockCostTable untied_costs(untied_order, coarsen(untied_order, {}, 128, 1));
  const auto load_of = [](const BlockCostTable& table, ScheduleKind schedule, int begin, int end) {
    const SearchSetting setting{.schedule = schedule, .micro_batches = 4, .devices = 4, .max_stages = 4, .min_stages = 4};
    return fastest_recompute(table, begin, end, 1, 1, setting, cluster, {})->first.load;
  };
  for (const auto& [begin, end] : {std::pair(0, 2), {6, 8}}) {
    EXPECT_DOUBLE_EQ(load_of(costs, zero_bubble_v, begin, end), load_of(untied_costs, zero_bubble_v, begin, end)) << begin;
    EXPECT_GT(load_of(costs, interleaved, begin, end), load_of(untied_costs, interleaved, begin, end) + 1) << begin;
  }
  EXPECT_GT(load_of(costs, zero_bubble_v, 1, 3), load_of(untied_costs, zero_bubble_v, 1, 3) + 1) << "not the first stage";
}

}  // namespace tied_parameters_test
}  // namespace tw::pipeline
