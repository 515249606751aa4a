// SPDX-License-Identifier: Apache-2.0
// What explain() says about a plan is true.
#include "problems.hpp"

#include <gtest/gtest.h>

namespace tw::pipeline {
namespace explanation_test {

using enum ScheduleKind;
using test::equal_chain;
using test::expect_contains;
using test::infinity;

void expect_lacks(const std::string& text, const std::string& part) { EXPECT_EQ(text.find(part), std::string::npos) << text << "\nhas: " << part; }

Profile chain_with_halves(int operators) {
  Profile profile = equal_chain(operators, 1000);
  for (ProfiledOperator& op : profile.operators) op.weights = {0, 1e-3};
  return profile;
}

constexpr Link fast{0, 1e9};
constexpr Cluster two_devices{.devices = 2, .between_stages = fast, .within_stage = fast};

/// With 128 micro-batches on two devices, 1F1B is almost as short as ZB-V.
PlanResult with_simplest_schedule() { return plan(chain_with_halves(48), two_devices, {.batch = 128, .micro_batches = 128, .stages = 2}); }

PlanResult data_parallel() { return plan(chain_with_halves(16), two_devices, {.batch = 4}); }

double shortest(const PlanResult& result) {
  return std::ranges::min_element(result.by_schedule, {}, &std::pair<ScheduleKind, double>::second)->second;
}

TEST(Explanation, HasTheShortestStepsWithoutALimit) {
  const PlanResult result = with_simplest_schedule();
  ASSERT_GT(result.best().step_s, 1.001 * shortest(result));
  for (const double relaxed : {result.relaxed.memory, result.relaxed.links, result.relaxed.all_reduce}) {
    EXPECT_LE(relaxed, shortest(result));
    EXPECT_GT(relaxed, 0.99 * shortest(result));
  }
  expect_contains(explain(result), "bottleneck: the work itself");
}

TEST(Explanation, GivesNoReasonsForAGivenPlan) {
  PlanResult result = with_simplest_schedule();
  Plan given = result.best();
  given.step_s *= 1.25;
  result.plans.insert(result.plans.begin(), given);
  result.best_is_given = true;
  const std::string text = explain(result);
  expect_contains(text, "why this plan: it was given\nthe planner's best: 2 stages on 2 devices (1+1), 128 micro-batches, 1f1b");
  expect_contains(text, ", 20 % shorter");
  for (const char* const part : {"simplest schedule", "next best", "bottleneck: "}) expect_lacks(text, part);
  result.plans.resize(1);  // as on other ranks than the first
  expect_contains(explain(result), "why this plan: it was given\n");
}

TEST(Explanation, SaysTooLittleOfLessSimpleSchedulesAlone) {
  PlanResult result = with_simplest_schedule();
  ASSERT_LT(result.plans[1].step_s, result.best().step_s);
  expect_contains(explain(result), "shorter, which is too little for a less simple schedule");
  result.plans[1].schedule = result.best().schedule;
  expect_contains(explain(result), "shorter, but its stages are less even");
}

/// All ranks compute the figures of the best plan once more, from its text.
TEST(Explanation, IsNotChangedByARoundingError) {
  PlanResult result = plan(chain_with_halves(48), two_devices, {.batch = 8, .micro_batches = 8, .stages = 2});
  expect_contains(explain(result), "why this plan: the shortest step of ");
  result.plans.front().step_s *= 1 + 1e-15;
  expect_contains(explain(result), "why this plan: the shortest step of ");
}

TEST(Explanation, DoesNotClaimThatNoPipelineIsFaster) {
  PlanResult result = data_parallel();
  ASSERT_TRUE(result.is_data_parallel());
  expect_contains(explain(result), "plain data parallelism wins, no pipeline is faster\n");
  result.by_schedule.emplace_back(zero_bubble_v, 0.99 * result.best().step_s);
  expect_contains(explain(result), "plain data parallelism wins, no pipeline is more than 2 % faster\n");
}

}  // namespace explanation_test
}  // namespace tw::pipeline
