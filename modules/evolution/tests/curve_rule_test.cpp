// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/evolution/curve_model.hpp>

namespace tw::search {
namespace curve_rule_test {

/// A user-defined model: predicts the last value as the end, with a fixed probability of being wrong by any amount.
struct Heard {
  std::vector<LearningCurve> ended;
  double asked_below = 0;
  int64_t asked_step = 0;
  size_t asked_reports = 0;
  double probability = 1;
};

class OwnModel : public CurveModel {
 public:
  explicit OwnModel(Heard& heard) : heard_(heard) {}
  void learn(const LearningCurve& ended) override { heard_.ended.push_back(ended); }
  double probability_below(double loss, const LearningCurve& curve, int64_t step) override {
    heard_.asked_below = loss;
    heard_.asked_step = step;
    heard_.asked_reports = curve.reports.size();
    return heard_.probability;
  }

 private:
  Heard& heard_;
};

std::unique_ptr<StoppingRule> rule_with(Heard& heard, const CurveRuleOptions& options) {
  return curve_rule(std::make_unique<OwnModel>(heard), options);
}

/// A trial that reports these values at steps 1, 2, ..., and then ends.
void run(StoppingRule& rule, int64_t trial, const std::vector<double>& values, TrialState state = TrialState::complete) {
  const Individual individual{.trial = trial, .values = {0.5}};
  rule.begin(individual);
  int64_t step = 0;
  for (const double value : values) rule.observe({trial, ++step, value});
  rule.tell({.trial = trial, .values = {0.5}, .loss = values.back(), .state = state});
}

bool report(StoppingRule& rule, const Report& report) {
  rule.observe(report);
  return rule.should_continue(report);
}

TEST(CurveRule, AsksForTheEndOfTheLongestAndTheBestLoss) {
  Heard heard;
  const auto rule = rule_with(heard, {.grace = 1, .min_complete = 2});
  run(*rule, 0, {5, 4, 3});
  run(*rule, 1, {5, 2}, TrialState::pruned);
  EXPECT_TRUE(report(*rule, {2, 2, 9}));
  EXPECT_EQ(heard.asked_step, 0) << "only one is complete";
  run(*rule, 3, {5, 4, 3, 2.5});
  EXPECT_TRUE(report(*rule, {2, 3, 9}));
  EXPECT_EQ(heard.asked_step, 4);
  EXPECT_EQ(heard.asked_below, 2.5) << "what was pruned has not ended there";
  EXPECT_EQ(heard.asked_reports, 2U);
  ASSERT_EQ(heard.ended.size(), 3U);
  EXPECT_EQ(heard.ended[1].state, TrialState::pruned);
  EXPECT_EQ(heard.ended[1].values, std::vector<double>{0.5});
  EXPECT_EQ(heard.ended[2].reports.size(), 4U);
}

TEST(CurveRule, StopsWhatIsNotLikelyToBecomeTheBest) {
  Heard heard;
  const auto rule = rule_with(heard, {.grace = 2, .min_complete = 1, .probability = 0.1});
  run(*rule, 0, {5, 4, 3, 2});
  heard.probability = 0.09;
  EXPECT_TRUE(report(*rule, {1, 2, 9})) << "its grace";
  EXPECT_FALSE(report(*rule, {1, 3, 9}));
  EXPECT_TRUE(report(*rule, {1, 4, 9})) << "at its end nothing is to be saved";
  EXPECT_TRUE(report(*rule, {2, 3, 1.9})) << "it is the best already";
  heard.probability = 0.1;
  EXPECT_TRUE(report(*rule, {3, 3, 9}));
  EXPECT_FALSE(report(*rule, {4, 1, NAN}));
  EXPECT_FALSE(report(*rule, {5, 3, INFINITY}));
}

TEST(CurveRule, ATrialThatIsBegunAgainStartsOver) {
  Heard heard;
  const auto rule = rule_with(heard, {.grace = 0, .min_complete = 1});
  run(*rule, 0, {5, 4, 3, 2});
  for (int64_t step = 1; step <= 3; ++step) rule->observe({1, step, 9});
  EXPECT_TRUE(report(*rule, {1, 1, 9}));
  EXPECT_EQ(heard.asked_reports, 1U);
}

TEST(CurveRule, WhatFailedOrReportedNothingTeachesNothing) {
  Heard heard;
  const auto rule = rule_with(heard, {});
  run(*rule, 0, {5, 4}, TrialState::failed);
  rule->tell({.trial = 1, .values = {0.5}, .loss = 1, .state = TrialState::complete});
  EXPECT_TRUE(heard.ended.empty());
}

TEST(CurveRule, RefusesWrongOptions) {
  Heard heard;
  EXPECT_THROW(curve_rule(nullptr), ContractError);
  EXPECT_THROW(rule_with(heard, {.probability = 1.5}), ContractError);
  EXPECT_THROW(rule_with(heard, {.min_complete = 0}), ContractError);
}

}  // namespace curve_rule_test
}  // namespace tw::search
