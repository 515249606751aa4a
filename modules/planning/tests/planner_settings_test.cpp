// SPDX-License-Identifier: Apache-2.0
// Which combinations of micro-batches, devices in a row and replicas the planner tries.
#include "message_of.hpp"
#include "problems.hpp"

#include <gtest/gtest.h>

#include <tw/base/error.hpp>

namespace tw::pipeline {
namespace planner_settings_test {

using enum ScheduleKind;
using test::equal_chain;
using test::expect_contains;
using test::infinity;
using testing::message_of;

constexpr Link fast{0, 1e9};

Cluster cluster_of(int devices, double memory = infinity) {
  return {.devices = devices, .memory_bytes = memory, .between_stages = fast, .within_stage = fast};
}

/// 35 is neither a divisor of 36, nor a power of two, nor three times one.
TEST(PlannerSettings, IncludeOneStageForEachBlock) {
  const Profile profile = equal_chain(35, 1000);
  const PlanResult result = plan(profile, cluster_of(36, 6000), {.batch = 1});
  EXPECT_EQ(result.best().stages.size(), 35U) << "a device has memory for one operator";
}

/// The first stage needs 20 replicas and the second one 10, but stages on more than 32 devices have equally many.
TEST(PlannerSettings, MayLackThePlanThatFits) {
  Profile profile = equal_chain(2, 1);
  profile.operators[0].saved_bytes = {0, 1000};
  profile.operators[1].saved_bytes = {0, 500};
  const std::string message =
      message_of([&] { plan(profile, cluster_of(33, 1200), {.batch = 20, .micro_batches = 1, .recompute = {Recompute::none}}); });
  expect_contains(message, "no plan with equally many replicas in all stages was found; with other numbers of replicas, 30 devices are sufficient");
}

/// Memory for micro-batches of 8 rows: 512 of them, though bubbles are short from 64 on.
TEST(PlannerSettings, IncludeSmallMicroBatchesOfAGivenSchedule) {
  Profile profile = equal_chain(8, 1000);
  for (ProfiledOperator& op : profile.operators) {
    op.weights = {0, 1e-3};
    op.saved_bytes = {0, 100};
    op.waiting_bytes = {0, 130};
  }
  for (const ScheduleKind schedule : {zero_bubble_h1, interleaved, zero_bubble_v}) {
    const PlanOptions options{.batch = 4096, .schedule = schedule, .recompute = {Recompute::none}};
    EXPECT_GE(plan(profile, cluster_of(2, 30000), options).best().micro_batches, 256) << name_of(schedule);
  }
}

/// A given number of micro-batches is tried with all schedules up to 64 times the devices in a row.
TEST(PlannerSettings, LeaveOutShortBubbles) {
  const auto simulated = [](int micro_batches) {
    return plan(equal_chain(8, 1000), cluster_of(2), {.batch = 256, .micro_batches = micro_batches, .stages = 2}).by_schedule.size();
  };
  EXPECT_EQ(simulated(128), schedule_names().size());
  EXPECT_EQ(simulated(129), 2U) << "1f1b and gpipe";
}

/// Where links are slow, few replicas are best, also on many devices: 100 MB of gradients take 0.8 s on two, and 1.6 s on 64.
TEST(PlannerSettings, IncludeFewReplicasOnManyDevices) {
  Profile profile = equal_chain(1, 100e6);
  profile.operators[0].forward = {0, 1.0 / 3 / 64};
  profile.operators[0].backward = {0, 2.0 / 3 / 64};
  const auto step_s = [&](int devices) {
    Cluster cluster = cluster_of(devices);
    cluster.within_stage = {0, 125e6};
    return plan(profile, cluster, {.batch = 64, .micro_batches = 1}).best().step_s;
  };
  EXPECT_NEAR(step_s(32), 0.5 + 0.8 - 1.0 / 3, 1e-6) << "two replicas";
  EXPECT_NEAR(step_s(33), step_s(32), 1e-6);
  EXPECT_NEAR(step_s(64), step_s(32), 1e-6);
}

TEST(PlannerSettings, CountSimulatedPlans) {
  const PlanResult result = plan(equal_chain(24, 1000), cluster_of(4), {.batch = 16, .schedule = zero_bubble_v});
  EXPECT_GT(result.simulated, 4) << "schedules by times are made for four plans only";
  EXPECT_GE(result.simulated, static_cast<int>(result.plans.size()));
}

}  // namespace planner_settings_test
}  // namespace tw::pipeline
