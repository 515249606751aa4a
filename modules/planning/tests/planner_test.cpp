// SPDX-License-Identifier: Apache-2.0
// The planner, compared with brute force on random models, and on chains whose optimum is known.
#include "message_of.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <numeric>

#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>

#include "coarsening.hpp"
#include "problems.hpp"

namespace tw::pipeline {
namespace planner_test {

using test::equal_chain;
using test::expect_contains;
using test::for_all_stages;
using test::infinity;
using test::Problem;
using test::random_problem;
using testing::message_of;

constexpr int graphs = 500;

/// Plans with several stages on each device are valid, fit, predict the same again, and survive JSON.
TEST(Planner, GivesEachDeviceSeveralStages) {
  int found = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Problem problem = random_problem(seed);
    std::mt19937 random(seed);
    problem.profile = test::random_profile(random, 10 + static_cast<int>(seed % 8));
    auto& [profile, cluster, options] = problem;
    cluster.memory_bytes *= 1 + seed % 4;
    options.batch = 8;
    options.schedule = seed % 2 == 0 ? ScheduleKind::interleaved : ScheduleKind::zero_bubble_v;
    if (seed % 3 == 0) options.stages = cluster.devices;
    PlanResult result;
    try {
      result = plan(profile, cluster, options);
    } catch (const Error& error) {
      ++refused;
      expect_contains(error.what(), "the model ");
      continue;
    }
    ++found;
    for (const Plan& each : result.plans) {
      ASSERT_EQ(problems_of(each, profile, cluster.devices), std::vector<std::string>{}) << "graph " << seed;
      const auto device_of = schedule_of(each).device_of_stages();
      if (options.stages) {
        EXPECT_EQ(each.stages.size(), 2U * static_cast<size_t>(*options.stages));
      }
      for (const double bytes : device_memory(each)) EXPECT_LE(bytes, cluster.memory_bytes) << "graph " << seed;
      std::vector<double> counted(device_memory(each).size(), 0);
      const std::vector<double> of_stages = test::memory_of(each, profile, options.parameters);
      for (size_t i = 0; i < of_stages.size(); ++i) counted[static_cast<size_t>(device_of[i])] += of_stages[i];
      for (const double bytes : counted) EXPECT_LE(bytes, cluster.memory_bytes * (1 + 1e-9)) << "graph " << seed;
      const Plan again = predicted(each, profile, cluster, options.parameters);
      EXPECT_NEAR(again.step_s, each.step_s, 1e-9 * each.step_s);
      const Plan read = plan_from_json(to_json(each, profile), profile, cluster.devices);
      EXPECT_EQ(to_json(predicted(read, profile, cluster, options.parameters), profile), to_json(again, profile));
    }
    EXPECT_GE(result.best().step_s, result.relaxed.balance * (1 - 1e-9));
  }
  EXPECT_GT(found, 40);
  EXPECT_GT(refused, 10);
}

/// The stages with any recomputation with which each has at most `memory`; empty if there is none. Full and selective take the same time. As in the
/// planner's search, a parameter counts in each stage that uses it.
std::optional<Plan> fitting(Plan plan, const Problem& problem, double memory) {
  const auto& [profile, cluster, options] = problem;
  std::vector<int> own_devices(plan.stages.size());
  std::iota(own_devices.begin(), own_devices.end(), 0);
  for (const Recompute recompute : {Recompute::full, Recompute::selective, Recompute::none}) {
    const std::vector<double> bytes = test::memory_of(plan, profile, options.parameters, own_devices);
    if (*std::max_element(bytes.begin(), bytes.end()) <= memory) return plan;
    for (size_t i = 0; i < plan.stages.size() && recompute != Recompute::none; ++i) {
      if (bytes[i] > memory) plan.stages[i].recompute = recompute;
    }
  }
  return std::nullopt;
}

/// The best predicted time of all plans that fit in memory, with all schedules. Stages of one device have equal shares of it, and all stages of such
/// schedules as many replicas, as in the planner.
double best_by_brute_force(const Problem& problem) {
  const auto& [profile, cluster, options] = problem;
  const OperatorOrder order(profile);
  const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
  double best = infinity;
  std::vector<StageChoice> stages;
  const auto visit = [&](ScheduleKind schedule, int m) {
    Plan plan{.hash = profile.hash, .batch = options.batch, .micro_batches = m, .schedule = schedule};
    if (std::ranges::any_of(stages, [&](const StageChoice& stage) { return stage.replicas > plan.rows(); })) return;
    int begin = 0;
    for (const StageChoice& stage : stages) {
      plan.stages.push_back({.operators = costs.operators_of(begin, stage.end), .replicas = stage.replicas});
      for (int block = begin; block < stage.end; ++block) plan.stages.back().segments.push_back(order.operator_at(block));
      begin = stage.end;
    }
    const std::optional<Plan> fits = fitting(plan, problem, cluster.memory_bytes / stages_per_device(schedule));
    if (fits) best = std::min(best, predicted(*fits, profile, cluster, options.parameters).step_s);
  };
  const auto visit_all = [&](ScheduleKind schedule) {
    if (static_cast<int>(stages.size()) % stages_per_device(schedule) != 0) return;
    for (const int m : micro_batch_counts(options)) visit(schedule, m);
  };
  for (const auto& [name, schedule] : schedule_names()) {
    if (stages_per_device(schedule) == 1) {
      for_all_stages(costs.blocks(), cluster.devices, stages, [&] { visit_all(schedule); });
      continue;
    }
    for (int replicas = 1; replicas <= cluster.devices; ++replicas)
      for_all_stages(costs.blocks(), stages_per_device(schedule) * cluster.devices, stages, [&] { visit_all(schedule); }, replicas, replicas);
  }
  return best;
}

TEST(Planner, IsWithinFivePercentOfBruteForceAndHolds) {
  int feasible = 0;
  int close = 0;
  int equal = 0;
  int staged = 0;
  int recomputing = 0;
  std::map<ScheduleKind, int> chosen;
  double worst = 1;
  for (unsigned seed = 0; seed < graphs; ++seed) {
    const Problem problem = random_problem(seed);
    const double best = best_by_brute_force(problem);
    if (!std::isfinite(best)) {
      EXPECT_THROW(plan(problem.profile, problem.cluster, problem.options), Error) << "graph " << seed;
      continue;
    }
    ++feasible;
    const PlanResult result = plan(problem.profile, problem.cluster, problem.options);
    for (const Plan& one : result.plans) {
      EXPECT_EQ(problems_of(one, problem.profile, problem.cluster.devices), std::vector<std::string>{}) << "graph " << seed;
      const std::vector<double> memory = test::memory_of(one, problem.profile, problem.options.parameters);
      for (size_t i = 0; i < memory.size(); ++i) {
        EXPECT_LE(stages_per_device(one.schedule) * memory[i], problem.cluster.memory_bytes + 1e-6) << "graph " << seed;
        EXPECT_NEAR(memory[i], one.stages[i].figures.memory.total(), 1e-6) << "graph " << seed << ", stage " << i;
      }
      EXPECT_NEAR(predicted(one, problem.profile, problem.cluster, problem.options.parameters).step_s, one.step_s, 1e-9) << "graph " << seed;
    }
    const Plan& ours = result.best();
    EXPECT_GE(ours.step_s, best * (1 - 1e-9)) << "graph " << seed << ": brute force has missed it";
    close += ours.step_s <= 1.05 * best ? 1 : 0;
    equal += ours.step_s <= best * (1 + 1e-9) ? 1 : 0;
    staged += ours.stages.size() > 1 ? 1 : 0;
    ++chosen[ours.schedule];
    recomputing += std::any_of(ours.stages.begin(), ours.stages.end(), [](const StagePlan& s) { return s.recompute != Recompute::none; }) ? 1 : 0;
    worst = std::max(worst, ours.step_s / best);
  }
  std::cout << feasible << " of " << graphs << " graphs fit; equal to brute force: " << equal << ", within 5 %: " << close << ", worst " << worst
            << "; " << staged << " have several stages, " << recomputing << " recompute\n";
  for (const auto& [kind, count] : chosen) std::cout << name_of(kind) << ": " << count << "  ";
  std::cout << '\n';
  EXPECT_GT(feasible, graphs / 2);
  EXPECT_LT(feasible, graphs);
  EXPECT_GT(staged, graphs / 10);
  EXPECT_GT(recomputing, graphs / 50);
  EXPECT_GE(close, 0.95 * feasible);
}

/// No plan is faster than all devices without idle time, or than the largest operator for all rows on all devices.
TEST(Planner, IsCloseToTheLowerBoundOnEqualChains) {
  for (const int operators : {16, 96, 1000}) {
    for (const int devices : {2, 8}) {
      for (const double share : {2.0, 1.4 / devices}) {  // of the model on one device: for data parallelism, and for a pipeline
        const Cluster cluster{
            .devices = devices, .memory_bytes = share * 4000 * operators + 600, .between_stages = {0, 1e9}, .within_stage = {0, 1e9}};
        const PlanOptions options{.batch = 128};
        const PlanResult result = plan(equal_chain(operators, 1000), cluster, options);
        const double bound = 3e-3 * operators * 128 / devices;
        EXPECT_GE(result.best().step_s, bound * (1 - 1e-9));
        EXPECT_LE(result.best().step_s, 1.15 * bound) << operators << " operators, " << devices << " devices, share " << share << '\n'
                                                      << explain(result);
        EXPECT_EQ(result.is_data_parallel(), share > 1) << operators << " operators, " << devices << " devices, share " << share;
      }
    }
  }
}

TEST(Planner, IsCloseToTheLowerBoundWithSeveralStagesOnADevice) {
  Profile chain = equal_chain(96, 1000);
  for (ProfiledOperator& op : chain.operators) op.weights = {0, 1e-3};
  const Cluster cluster{.devices = 4, .memory_bytes = infinity, .between_stages = {0, 1e9}, .within_stage = {0, 1e9}};
  const double work = 3e-3 * 96 * 128 / 4;
  // Bubbles of (p - 1)(F + B) / 2 and (p - 1) F / 2, of m (F + B) = 48 F, where F and B are passes of all stages of a device.
  for (const auto& [schedule, bubble] : {std::pair(ScheduleKind::interleaved, 4.5 / 48), std::pair(ScheduleKind::zero_bubble_v, 1.5 / 48)}) {
    const PlanResult result = plan(chain, cluster, {.batch = 128, .micro_batches = 16, .schedule = schedule, .stages = 4});
    EXPECT_NEAR(result.best().step_s, (1 + bubble) * work, 0.01 * work) << explain(result);
  }
}

TEST(Planner, FindsTheSameTwice) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    try {
      const PlanResult first = plan(profile, cluster, options);
      const PlanResult second = plan(profile, cluster, options);
      EXPECT_EQ(explain(first), explain(second));
      ASSERT_EQ(first.plans.size(), second.plans.size());
      for (size_t i = 0; i < first.plans.size(); ++i) EXPECT_EQ(to_json(first.plans[i], profile), to_json(second.plans[i], profile));
    } catch (const Error&) {  // does not fit
    }
  }
}

int stage_of(const Plan& plan, const Profile& profile, const std::string& name) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int op : plan.stages[s].operators) {
      if (profile.operators[static_cast<size_t>(op)].name == name) return static_cast<int>(s);
    }
  }
  return -1;
}

TEST(Planner, KeepsTogetherWhatIsPinned) {
  const Profile profile = equal_chain(8, 1000);
  const Cluster cluster{.devices = 2, .memory_bytes = 30000, .between_stages = {0, 1e9}, .within_stage = {0, 1e3}};
  const PlanResult free = plan(profile, cluster, {.batch = 16});
  ASSERT_NE(stage_of(free.best(), profile, "op3"), stage_of(free.best(), profile, "op4")) << "the middle is the best cut";
  for (const auto& together : std::vector<std::vector<std::string>>{{"op3", "op4"}, {"op4", "op2", "op5"}}) {
    const PlanResult pinned = plan(profile, cluster, {.batch = 16, .together = {together}});
    EXPECT_GE(pinned.best().step_s, free.best().step_s);
    for (const Plan& one : pinned.plans) {
      for (const std::string& name : together) EXPECT_EQ(stage_of(one, profile, name), stage_of(one, profile, together[0])) << name;
    }
  }
  EXPECT_THROW(plan(profile, cluster, {.batch = 16, .together = {{"op3", "op99"}}}), ContractError);
  const PlanResult one_stage = plan(profile, cluster, {.batch = 16, .max_stages = 1, .parameters = {.optimizer = 0}});
  for (const Plan& one : one_stage.plans) EXPECT_EQ(one.stages.size(), 1U);
}

TEST(Planner, SaysWhatDoesNotFitAndHowManyDevicesWould) {
  Profile profile = equal_chain(8, 1000);
  Cluster cluster{.devices = 2, .memory_bytes = 8200};  // two operators per device
  const PlanOptions options{.batch = 4};
  const std::string too_few = message_of([&] { plan(profile, cluster, options); });
  expect_contains(too_few, "the model does not fit on 2 devices of 8200 bytes");
  expect_contains(too_few, "\"op4\" does not fit: the devices before it are full, and 160");
  expect_contains(too_few, "; 4 devices are sufficient");
  cluster.devices = 4;
  const Plan on_four = plan(profile, cluster, options).best();
  EXPECT_EQ(on_four.devices(), 4);
  EXPECT_EQ(on_four.stages.size(), 4U * static_cast<size_t>(stages_per_device(on_four.schedule))) << "four in a row";
  cluster.devices = 3;
  expect_contains(message_of([&] { plan(profile, cluster, options); }), "; 4 devices are sufficient");

  profile.parameters[5].bytes = 3000;
  const std::string too_large = message_of([&] { plan(profile, cluster, options); });
  expect_contains(too_large, "\"op5\" alone needs 12006 bytes on each device, 3806 bytes more than a device has: no number of devices is sufficient");
  expect_contains(message_of([&] { plan(equal_chain(8, 1000), cluster, {.batch = 4, .max_stages = 2}); }),
                  "with at most 2 stages, no number of devices");
}

/// The number of devices in the message is enough, and no smaller number is, also where memory depends on the number of stages.
TEST(Planner, SaysTheSmallestNumberOfDevices) {
  Profile profile = equal_chain(12, 1000);
  for (ProfiledOperator& op : profile.operators) {
    op.saved_bytes = {0, 100};
    op.waiting_bytes = {0, 500};
  }
  for (const ScheduleKind schedule : {ScheduleKind::one_forward_one_backward, ScheduleKind::gpipe, ScheduleKind::zero_bubble_h1}) {
    for (const double memory : {9500.0, 12000.0, 14500.0, 17000.0}) {
      const PlanOptions options{.batch = 8, .micro_batches = 8, .schedule = schedule, .recompute = {Recompute::none}};
      const auto planned = [&](int devices) { plan(profile, {.devices = devices, .memory_bytes = memory, .between_stages = {0, 1e9}}, options); };
      const std::string message = message_of([&] { planned(1); });
      int enough = 2;
      while (enough < 13 && message_of([&] { planned(enough); }) != "nothing thrown") ++enough;
      const std::string number = enough < 13 ? concat("; ", enough, " devices are sufficient") : "no number of devices is sufficient";
      expect_contains(message, number);
    }
  }
}

TEST(Planner, TriesPowersOfTwoAndDivisors) {
  EXPECT_EQ(micro_batch_counts({.batch = 100}), (std::vector<int>{1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64}));
  EXPECT_EQ(micro_batch_counts({.batch = 1031}).back(), 1024);
  EXPECT_EQ(micro_batch_counts({.batch = 1 << 20}).back(), 4096);
  EXPECT_EQ(micro_batch_counts({.batch = 100, .micro_batches = 7}), std::vector<int>{7});
}

TEST(Planner, RefusesWrongOptionsByName) {
  const Profile profile = equal_chain(4, 1);
  const auto refused = [&](const Cluster& cluster, const PlanOptions& options) { return message_of([&] { plan(profile, cluster, options); }); };
  expect_contains(refused({.devices = 0}, {}), "devices must be at least 1");
  expect_contains(refused({.devices = 1, .between_stages = {0, 0}}, {}), "between_stages.bytes_per_second must be positive");
  expect_contains(refused({}, {.batch = 4, .micro_batches = 8}), "a batch of 4 rows cannot be divided into 8 micro-batches");
  expect_contains(refused({}, {.batch = 4, .recompute = {}}), "recompute must allow at least one kind");
  expect_contains(refused({}, {.batch = 4, .max_stages = 0}), "max_stages must be at least 1");
  expect_contains(refused({.devices = 2}, {.batch = 4, .stages = 3}), "there are 2 devices for 3 stages");
  expect_contains(refused({.devices = 8}, {.batch = 4, .stages = 5}), "the model can be cut into at most 4 stages, but 5 are needed");
  expect_contains(refused({.devices = 8}, {.batch = 4, .max_stages = 2, .stages = 3}), "there cannot be 3 stages, because max_stages is 2");
}

/// One micro-batch takes the same time wherever the stages are cut; even ones need the least memory.
TEST(Planner, CutsStagesEvenlyWhereTheirTimeLeavesItFree) {
  const Cluster cluster{.devices = 4, .between_stages = {0, 1e9}};
  const PlanResult result = plan(equal_chain(12, 1000), cluster, {.batch = 4, .micro_batches = 1, .stages = 4});
  for (const StagePlan& stage : result.best().stages) EXPECT_EQ(stage.operators.size(), 3U);
}

/// Recomputation only where memory requires it, and never where it is not allowed.
TEST(Planner, RecomputesOnlyWhereItMust) {
  Profile profile = equal_chain(8, 1);
  for (ProfiledOperator& op : profile.operators) op.saved_bytes = {0, 100};
  const auto recomputes = [](const PlanResult& result) {
    const auto& stages = result.best().stages;
    return std::any_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.recompute != Recompute::none; });
  };
  Cluster cluster{.devices = 1, .memory_bytes = 1000};
  EXPECT_FALSE(recomputes(plan(profile, cluster, {.batch = 1})));
  EXPECT_EQ(plan(profile, cluster, {.batch = 1, .recompute = {Recompute::full}}).best().stages[0].recompute, Recompute::full);
  cluster.memory_bytes = 200;  // 8 operators save 800, a segment saves 100
  const PlanResult tight = plan(profile, cluster, {.batch = 1});
  EXPECT_EQ(tight.best().stages[0].recompute, Recompute::selective);
  EXPECT_DOUBLE_EQ(tight.best().step_s, 8 * (1e-3 + 2e-3 + 1e-3)) << "forward once more";
  EXPECT_THROW(plan(profile, cluster, {.batch = 1, .recompute = {Recompute::none}}), Error);
}

TEST(Explanation, NamesWhatBindsAndTheNextBest) {
  const Profile profile = equal_chain(16, 1000);
  const auto explained = [&](const Cluster& cluster, const PlanOptions& options) { return explain(plan(profile, cluster, options)); };
  const Link fast{0, 1e12};
  const std::string by_memory = explained({.devices = 2, .memory_bytes = 40000, .between_stages = fast, .within_stage = fast}, {.batch = 4});
  expect_contains(by_memory, "bottleneck: memory.");
  expect_contains(by_memory, "next best: 2 stages on 2 devices (1+1)");
  expect_contains(explained({.devices = 2, .between_stages = {0, 1e-3}, .within_stage = {0, 1e5}}, {.batch = 4}),
                  "bottleneck: the all-reduce of gradients.");
  const std::string alone = explained({.devices = 2, .between_stages = fast, .within_stage = fast}, {.batch = 4});
  expect_contains(alone, "plain data parallelism wins");
  expect_contains(alone, "bottleneck: the work itself");
  const std::string by_links = explained({.devices = 2, .memory_bytes = 40000, .between_stages = {0, 5}, .within_stage = {0, 1e-3}}, {.batch = 4});
  expect_contains(by_links, "bottleneck: the links between stages.");
}

}  // namespace planner_test
}  // namespace tw::pipeline
