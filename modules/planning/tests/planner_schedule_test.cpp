// SPDX-License-Identifier: Apache-2.0
// The planner chooses the schedule by itself.
#include "random_profile.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <iostream>
#include <tw/base/error.hpp>
#include <tw/planning/analytic.hpp>

namespace tw::pipeline {
namespace planner_schedule_test {

using enum ScheduleKind;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double little = 0.02;  // for which a simpler schedule is better

/// Equal operators with one row per micro-batch; a forward pass of 1 ms and a backward pass of 2 ms, of which the weights' half takes `weights` ms.
Profile chain(int operators, double weights) {
  Profile profile{.hash = "chain", .input_bytes = {0, 1}};
  for (int i = 0; i < operators; ++i) {
    profile.parameters.push_back({concat("p", i), 1000});
    profile.operators.push_back({.name = concat("op", i),
                                 .inputs = {i - 1},
                                 .parameters = {i},
                                 .forward = {0, 1e-3},
                                 .backward = {0, 2e-3},
                                 .weights = {0, 1e-3 * weights},
                                 .output_bytes = {0, 1},
                                 .saved_bytes = {0, 100},
                                 .waiting_bytes = {0, 130}});
  }
  return profile;
}

Cluster cluster_of(int devices, double memory = infinity) {
  return {.devices = devices, .memory_bytes = memory, .between_stages = {0, 1e9}, .within_stage = {0, 1e9}};
}

/// Four devices in a row and 16 micro-batches.
PlanOptions four_devices(std::optional<ScheduleKind> schedule = {}) {
  return {.batch = 16, .micro_batches = 16, .schedule = schedule, .stages = 4, .recompute = {Recompute::none}};
}

TEST(PlannerChoosesTheSchedule, WithTheShortestBubble) {
  const double work = 16 * 12 * 3e-3;
  const PlanResult result = plan(chain(48, 1), cluster_of(4), four_devices());
  EXPECT_EQ(result.best().schedule, zero_bubble_v) << explain(result);
  EXPECT_NEAR(result.best().step_s, work + 1.5 * 12e-3, 0.002 * work) << "the last device waits for half of the stages before it";
  std::set<ScheduleKind> simulated;
  for (const auto& [kind, step_s] : result.by_schedule) {
    simulated.insert(kind);
    EXPECT_GE(step_s, result.best().step_s);
  }
  EXPECT_EQ(simulated.size(), schedule_names().size());
}

/// Four operators cannot be cut into eight stages.
TEST(PlannerChoosesTheSchedule, OfOneStageOnEachDeviceWhereThereAreFewOperators) {
  EXPECT_EQ(plan(chain(4, 1), cluster_of(4), four_devices()).best().schedule, zero_bubble_h1);
  EXPECT_EQ(plan(chain(4, 0), cluster_of(4), four_devices()).best().schedule, one_forward_one_backward) << "weights' halves take no time";
}

TEST(PlannerChoosesTheSchedule, WithoutHalvesWhereWeightsTakeNoTime) {
  EXPECT_EQ(plan(chain(48, 0), cluster_of(4), four_devices()).best().schedule, interleaved);
}

/// The memory that the best plan of one kind needs.
double memory_of(ScheduleKind kind) { return std::ranges::max(device_memory(plan(chain(48, 1), cluster_of(4), four_devices(kind)).best())); }

TEST(PlannerChoosesTheSchedule, ThatMemoryAllows) {
  const double least = memory_of(one_forward_one_backward);
  const double more = memory_of(zero_bubble_h1);  // what waits for weights' halves is larger than activations here
  ASSERT_GT(more, 1.02 * least);
  const auto best = [](double memory) { return plan(chain(48, 1), cluster_of(4, memory), four_devices()).best(); };
  EXPECT_THROW(best(0.99 * least), Error);
  EXPECT_EQ(best(1.001 * least).schedule, one_forward_one_backward);
  EXPECT_EQ(best(1.001 * more).schedule, zero_bubble_h1);
  EXPECT_EQ(best(2 * more).schedule, zero_bubble_v);
}

/// With 128 micro-batches on two devices, 1F1B's bubble is 0.8 % of the step.
TEST(PlannerChoosesTheSchedule, ThatIsSimplestWhereOthersAreLittleShorter) {
  const PlanResult result = plan(chain(48, 1), cluster_of(2), {.batch = 128, .micro_batches = 128, .stages = 2});
  EXPECT_EQ(result.best().schedule, one_forward_one_backward);
  const auto shortest = std::ranges::min_element(result.by_schedule, {}, &std::pair<ScheduleKind, double>::second);
  EXPECT_EQ(shortest->first, zero_bubble_v);
  EXPECT_LT(shortest->second, result.best().step_s);
  test::expect_contains(explain(result), "shorter, which is too little for a less simple schedule");
  test::expect_contains(explain(result), "other schedules: ");
}

/// On random models, all kinds together find what each kind finds by itself, and plans fit in memory, also what waits for weights' halves.
TEST(PlannerChoosesTheSchedule, AmongAllKinds) {
  int feasible = 0;
  std::map<ScheduleKind, int> chosen;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    Profile profile = test::random_profile(random, 8 + static_cast<int>(seed % 9));
    if (seed % 3 != 0) test::give_halves(profile, random);
    double bytes = 0;
    for (const ProfiledParameter& parameter : profile.parameters) bytes += 4 * parameter.bytes;
    for (const ProfiledOperator& op : profile.operators) bytes += op.saved_bytes.of(8);
    Cluster cluster = cluster_of(2 + static_cast<int>(seed % 5), bytes * test::uniform(random, 0.2, 1.5));
    cluster.between_stages = {test::uniform(random, 0, 0.1), test::uniform(random, 100, 3000)};
    cluster.within_stage = {0.1, test::uniform(random, 3, 100)};
    PlanOptions options{.batch = 16, .gap = 0};
    double shortest = infinity;
    for (const auto& [name, kind] : schedule_names()) {
      options.schedule = kind;
      try {
        shortest = std::min(shortest, plan(profile, cluster, options).best().step_s);
      } catch (const Error&) {  // does not fit
      }
    }
    options.schedule.reset();
    if (shortest == infinity) {
      EXPECT_THROW(plan(profile, cluster, options), Error) << "graph " << seed;
      continue;
    }
    ++feasible;
    const PlanResult result = plan(profile, cluster, options);
    ++chosen[result.best().schedule];
    EXPECT_GE(result.best().step_s, shortest * (1 - 1e-9)) << "graph " << seed;
    EXPECT_LE(result.best().step_s, shortest * (1 + little)) << "graph " << seed;
    for (const Plan& each : result.plans) {
      const std::vector<double> memory = test::memory_of(each, profile, options.parameters);
      std::vector<double> of_devices(device_memory(each).size(), 0);
      for (size_t i = 0; i < memory.size(); ++i) {
        EXPECT_NEAR(memory[i], each.stages[i].figures.memory.total(), 1e-6) << "graph " << seed << ", " << name_of(each.schedule) << ", stage " << i;
        of_devices[static_cast<size_t>(device_of_stages(each)[i])] += memory[i];
      }
      for (const double of_device : of_devices) EXPECT_LE(of_device, cluster.memory_bytes + 1e-6) << "graph " << seed;
    }
  }
  for (const auto& [kind, count] : chosen) std::cout << name_of(kind) << ": " << count << "  ";
  std::cout << "of " << feasible << " models\n";
  EXPECT_GT(feasible, 40);
  EXPECT_GE(chosen.size(), 4U);
}

/// Plans for stages of unequal length give the executing ranks the schedule that was simulated, also through a file.
TEST(PlannerChoosesTheSchedule, AndPlansCarryIt) {
  Profile profile = chain(20, 0.5);
  for (size_t i = 0; i < profile.operators.size(); ++i) profile.operators[i].forward.per_row *= 1 + 0.1 * static_cast<double>(i % 7);
  const PlanResult result = plan(profile, cluster_of(4), four_devices(zero_bubble_v));
  const Plan& best = result.best();
  const Schedule schedule = schedule_of(best);
  EXPECT_NE(schedule, make_schedule(zero_bubble_v, 4, 16)) << "stages are unequal";
  EXPECT_NEAR(simulate(schedule, pass_times(best)).duration, best.step_s, 1e-9);
  EXPECT_EQ(schedule_of(plan_from_json(to_json(best, profile), profile, 4)), schedule);
  EXPECT_EQ(schedule_of(predicted(best, profile, cluster_of(4))), schedule);
  Plan by_hand = best;
  for (StagePlan& stage : by_hand.stages) stage.figures = {};
  EXPECT_EQ(schedule_of(by_hand), make_schedule(zero_bubble_v, 4, 16));
  EXPECT_EQ(schedule_of(predicted(by_hand, profile, cluster_of(4))), schedule);
}

/// 100 operators in 16 stages: 6 or 7 in each, so that no device has two long stages without need.
TEST(PlannerChoosesTheSchedule, AndCutsStagesOfOneDeviceEvenly) {
  const PlanResult result = plan(chain(100, 1), cluster_of(8), {.batch = 16, .micro_batches = 16, .schedule = zero_bubble_v, .stages = 8});
  for (const StagePlan& stage : result.best().stages) EXPECT_NEAR(static_cast<double>(stage.operators.size()), 6.5, 0.5);
}

// Sanitizers make it ten times slower.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(PlannerChoosesTheSchedule, ForManyDevicesWithinAMinute) {
  const Profile gpt = transformer_profile(/*blocks=*/96, /*width=*/12288, /*heads=*/96, /*sequence=*/2048, /*vocabulary=*/51200, {3e14, 2e12});
  const Link link{.latency_s = 5e-6, .bytes_per_second = 25e9};
  const Cluster cluster{.devices = 1024, .memory_bytes = 160e9, .between_stages = link, .within_stage = link};
  const std::clock_t begin = std::clock();
  const PlanResult result = plan(gpt, cluster, {.batch = 1536});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::cout << "a GPT of 96 blocks on 1,024 devices: " << seconds << " s of processor time\n";
  EXPECT_LT(seconds, 60);
  EXPECT_LE(result.best().devices(), 1024);
  for (const double bytes : device_memory(result.best())) EXPECT_LE(bytes, cluster.memory_bytes);
}
#endif

}  // namespace planner_schedule_test
}  // namespace tw::pipeline
