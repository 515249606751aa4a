// SPDX-License-Identifier: Apache-2.0
// The search for stages, compared with brute force on random models, and the blocks that it cuts between.
#include <gtest/gtest.h>

#include <iostream>

#include <tw/planning/analytic.hpp>

#include "coarsening.hpp"
#include "problems.hpp"
#include "stage_search.hpp"

namespace tw::pipeline {
namespace stage_search_test {

using test::equal_chain;
using test::for_all_stages;
using test::infinity;
using test::random_problem;

constexpr int graphs = 500;

TEST(StageSearch, EqualsBruteForce) {
  int feasible = 0;
  int missed = 0;
  for (unsigned seed = 0; seed < graphs; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    const OperatorOrder order(profile);
    const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
    for (const int m : {1, 2, 4}) {
      for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1}) {
        SearchSetting setting{schedule, m, (options.batch + m - 1) / m, cluster.devices, seed % 3 == 0 ? 2 : cluster.devices};
        const bool exact = seed % 5 == 1;  // a given number of stages, of one device each
        if (exact) setting.min_stages = setting.max_stages;
        if (exact) setting.max_replicas = 1;
        double best = infinity;
        double fewest = infinity;
        std::vector<StageChoice> stages;
        for_all_stages(costs.blocks(), cluster.devices, stages, [&] {
          const auto count = static_cast<int>(stages.size());
          if (count > setting.max_stages) return;
          double sum = 0;
          double load = 0;
          for (size_t i = 0; i < stages.size(); ++i) {
            if (stages[i].replicas > std::min<int64_t>(setting.rows, setting.max_replicas)) return;
            const int held = schedule == ScheduleKind::gpipe ? m : std::min<int>(m, static_cast<int>(stages.size() - i));
            const auto cost =
                fastest_recompute(costs, i == 0 ? 0 : stages[i - 1].end, stages[i].end, stages[i].replicas, held, setting, cluster, options);
            if (!cost) return;
            sum += cost->first.tau;
            load = std::max(load, cost->first.load);
          }
          if (count >= setting.min_stages) best = std::min(best, sum + load);
          double devices = 0;
          for (const StageChoice& stage : stages) devices += stage.replicas;
          fewest = std::min(fewest, devices);
        });
        const double fewest_found = fewest_devices(costs, setting, cluster, options).objective;
        double found = infinity;
        for (const Candidate& candidate : search_stages(costs, setting, cluster, options, infinity)) found = std::min(found, candidate.objective);
        feasible += std::isfinite(best) ? 1 : 0;
        if (schedule == ScheduleKind::zero_bubble_h1) {
          // The search takes a stage only if it also fits with fewer micro-batches in flight, of which more may then wait.
          ASSERT_GE(fewest_found, fewest) << "graph " << seed << ", m = " << m;
          if (std::isfinite(found)) {
            ASSERT_GE(found, best * (1 - 1e-9)) << "graph " << seed << ", m = " << m;
          }
          missed += found > best * (1 + 1e-9) ? 1 : 0;
          continue;
        }
        ASSERT_EQ(fewest_found, fewest) << "graph " << seed << ", m = " << m;
        if (!std::isfinite(best) && !std::isfinite(found)) continue;
        ASSERT_NEAR(found, best, 1e-9 * best) << "graph " << seed << ", m = " << m;
      }
    }
  }
  EXPECT_GT(feasible, 2 * graphs);
  EXPECT_LT(feasible, 9 * graphs) << "some do not fit";
  EXPECT_LT(missed, graphs / 20);
  std::cout << missed << " of " << feasible << " optima missed, in ZB-H1\n";
}

/// The bound by which the search leaves out settings: no candidate is below it, and for equal stages without transfers it is the objective.
TEST(StageSearch, HasALowerBound) {
  using enum ScheduleKind;
  int candidates = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    const OperatorOrder order(profile);
    const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
    Profile equal{.hash = "equal"};
    for (int i = 0; i < 12; ++i)
      equal.operators.push_back({.name = concat(i), .inputs = {i - 1}, .forward = {0, 1}, .backward = {0, 3}, .weights = {0, 1}});
    const OperatorOrder equal_order(equal);
    const BlockCostTable equal_costs(equal_order, coarsen(equal_order, {}, 128, 1));
    for (const ScheduleKind schedule : {gpipe, one_forward_one_backward, zero_bubble_h1, interleaved, zero_bubble_v}) {
      const int stages = (1 + static_cast<int>(seed % 3)) * stages_per_device(schedule);
      const int replicas = 1 + static_cast<int>(seed % 2);
      const SearchSetting setting{.schedule = schedule,
                                  .micro_batches = 1 + static_cast<int>(seed % 5),
                                  .rows = 4,
                                  .devices = stages * replicas,
                                  .max_stages = stages,
                                  .min_replicas = replicas,
                                  .max_replicas = replicas,
                                  .min_stages = stages};
      const double bound = lower_bound(costs, setting, stages, replicas, cluster, options);
      for (const Candidate& each : search_stages(costs, setting, cluster, options, infinity)) {
        ++candidates;
        EXPECT_GE(each.objective, bound * (1 - 1e-9)) << "graph " << seed << ", " << name_of(schedule);
      }
      double least = infinity;
      for (const Candidate& each : search_stages(equal_costs, setting, {}, options, infinity)) least = std::min(least, each.objective);
      EXPECT_NEAR(lower_bound(equal_costs, setting, stages, replicas, {}, options), least, 1e-9 * least) << name_of(schedule) << ' ' << stages;
    }
  }
  EXPECT_GT(candidates, 300);
}

/// The stages of a device reduce their gradients one after the other, during the device's last action: of zero bubbles, a weights' half.
TEST(StageSearch, CountsTheAllReducesOfAllStagesOfADevice) {
  using enum ScheduleKind;
  const Profile profile = [] {
    Profile made = equal_chain(4, 1000);
    for (ProfiledOperator& op : made.operators) op.weights = {0, 0.5e-3};
    return made;
  }();
  const OperatorOrder order(profile);
  const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
  const Cluster slow{.devices = 8, .between_stages = {0, 1e9}, .within_stage = {0, 1000}};
  Cluster fast = slow;
  fast.within_stage = {0, 1e12};
  for (const ScheduleKind schedule : {gpipe, one_forward_one_backward, zero_bubble_h1, interleaved, zero_bubble_v}) {
    const int per_device = stages_per_device(schedule);
    SearchSetting setting{.schedule = schedule, .micro_batches = 8, .rows = 2, .devices = 8, .max_stages = 4, .min_replicas = 2};
    setting.max_replicas = setting.min_replicas;
    setting.min_stages = setting.max_stages;
    const auto load_of = [&](const Cluster& cluster) { return fastest_recompute(costs, 1, 2, 2, 1, setting, cluster, {})->first.load; };
    const double hidden = schedule == zero_bubble_h1 || schedule == zero_bubble_v ? 0.5e-3 : 2e-3;
    EXPECT_NEAR(load_of(slow) - load_of(fast), per_device * ring_all_reduce(2, 1000, slow.within_stage) - hidden, 1e-9) << name_of(schedule);
    const auto bound = [&](const Cluster& cluster) { return lower_bound(costs, setting, setting.max_stages, 2, cluster, {}); };
    EXPECT_NEAR(bound(slow) - bound(fast), load_of(slow) - load_of(fast), 1e-9) << name_of(schedule);
  }
}

TEST(Coarsening, CutsBetweenTheBlocksOfATransformer) {
  const Profile profile = transformer_profile(96, 256, 4, 64, 1000, {});
  const OperatorOrder order(profile);
  const std::vector<int> begins = coarsen(order, {}, 128, 4);
  EXPECT_LE(begins.size(), 129U);
  EXPECT_EQ(begins.front(), 0);
  EXPECT_EQ(begins.back(), order.size());
  EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end()));
  size_t at_one_value = 0;  // before a block's layer norms, only the residual crosses
  for (const int begin : begins) at_one_value += begin < order.size() && order.border(begin).of(1) == 64 * 256 * 4 ? 1 : 0;
  EXPECT_GE(at_one_value, 120U);
}

TEST(Coarsening, BlocksAreAboutEqual) {
  for (const int operators : {300, 5000}) {
    const Profile profile = equal_chain(operators, 10);
    const OperatorOrder order(profile);
    const std::vector<int> begins = coarsen(order, {}, 64, 1);
    ASSERT_EQ(begins.size(), 65U);
    for (size_t i = 1; i < begins.size(); ++i) EXPECT_NEAR(begins[i] - begins[i - 1], operators / 64.0, 1) << "block " << i;
  }
  const Profile few = equal_chain(5, 10);
  EXPECT_EQ(coarsen(OperatorOrder(few), {}, 64, 1).size(), 6U);
  EXPECT_EQ(coarsen(OperatorOrder(few), {{1, 3}}, 64, 1), (std::vector<int>{0, 1, 4, 5}));
}

}  // namespace stage_search_test
}  // namespace tw::pipeline
