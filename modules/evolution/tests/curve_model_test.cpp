// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <tw/base/contract.hpp>
#include <tw/evolution/curve_model.hpp>
#include <tw/evolution/draws.hpp>

#include "ended_curves.hpp"

namespace tw::search {
namespace curve_model_test {

constexpr int64_t last_step = 100;

/// `reports` reports of a trial with these losses; with all of them the trial is complete.
LearningCurve curve_of(int64_t trial, double x, const std::function<double(double)>& loss, int64_t reports = last_step) {
  LearningCurve curve{.trial = trial, .values = {x}};
  for (int64_t step = 1; step <= reports; ++step) curve.reports.push_back({trial, step, loss(static_cast<double>(step))});
  curve.loss = curve.reports.back().value;
  curve.state = reports == last_step ? TrialState::complete : TrialState::pruned;
  return curve;
}

/// The loss below which the trial ends with this probability.
double quantile(CurveModel& model, const LearningCurve& curve, double probability) {
  double low = -100;
  double high = 100;
  for (int halving = 0; halving < 50; ++halving) {
    const double middle = (low + high) / 2;
    (model.probability_below(middle, curve, last_step) < probability ? low : high) = middle;
  }
  return low;
}

TEST(EndedCurves, KeepsTheLongestAndLooksAtSomePointsOfEach) {
  EndedCurves ended({.max_curves = 3, .max_points = 8});
  for (const int64_t reports : {20, 100, 5, 100, 50})
    ended.add(curve_of(reports, 0.5, [&](double t) { return t / 100 + static_cast<double>(ended.all().size()); }, reports));
  ASSERT_EQ(ended.all().size(), 3U);
  EXPECT_EQ(ended.all()[0].trial, 100);
  EXPECT_EQ(ended.all()[2].trial, 50);
  const auto units = ended.units();
  ASSERT_TRUE(units);
  EXPECT_EQ((*units)(ended.all()[0].loss), 0) << "the best complete one";
  EXPECT_EQ((*units)(ended.all()[1].loss), 1) << "of two, the larger one is their median";
  EXPECT_LT((*units)(1e300), 1e3) << "it has diverged";
  const CurvePoints points = ended.points(ended.all()[0], *units);
  EXPECT_LE(points.size(), 8);
  EXPECT_GE(points.size(), 6);
  EXPECT_EQ(points.steps[0], 1);
  EXPECT_EQ(points.steps[points.size() - 1], 100);
  EXPECT_GT(points.steps[points.size() / 2], 3);
  EXPECT_LT(points.steps[points.size() / 2], 30) << "evenly in the logarithm";
}

/// Curves that start at 2 and end between 0.1 and 0.7, as t^-0.8, with noise.
double falling(double x, double t, uint64_t seed) {
  CounterRng random(seed, static_cast<uint64_t>(t));
  const double end = 0.1 + 0.6 * x;
  return end + (2 - end) * std::pow(t, -0.8) + 0.002 * normal(random);
}

/// After 10 of 100 steps a trial lies 0.2 to 0.3 above its end: using the current value as the prediction would fail.
TEST(CurveModels, ForetellWhereCurvesEnd) {
  const auto model = parametric_curves();
  for (int64_t trial = 0; trial < 6; ++trial) {
    const double x = static_cast<double>(trial) / 5;
    model->learn(curve_of(trial, x, [&](double t) { return falling(x, t, static_cast<uint64_t>(trial)); }));
  }
  for (const double x : {0.1, 0.5, 0.9}) {
    const auto loss = [&](double t) { return falling(x, t, 99); };
    const LearningCurve curve = curve_of(99, x, loss, 10);
    EXPECT_GT(loss(10) - loss(last_step), 0.15);
    EXPECT_NEAR(quantile(*model, curve, 0.5), loss(last_step), 0.04) << x;
    const double width = quantile(*model, curve, 0.95) - quantile(*model, curve, 0.05);
    EXPECT_GT(width, 0.004) << "less than its noise";
    EXPECT_LT(width, 0.2);
    EXPECT_LT(width, quantile(*model, curve_of(99, x, loss, 1), 0.95) - quantile(*model, curve_of(99, x, loss, 1), 0.05));
  }
}

/// Curves scaled by two and shifted below zero have predictions scaled and shifted alike. The tolerance is for rounding errors, which grow with the
/// fit's iterations.
TEST(CurveModels, KnowNoUnitAndNoZero) {
  const auto model = parametric_curves();
  const auto other = parametric_curves();
  for (int64_t trial = 0; trial < 6; ++trial) {
    const double x = static_cast<double>(trial) / 5;
    const auto loss = [&](double t) { return falling(x, t, static_cast<uint64_t>(trial)); };
    model->learn(curve_of(trial, x, loss));
    other->learn(curve_of(trial, x, [&](double t) { return 2 * loss(t) - 8; }));
  }
  const auto loss = [&](double t) { return falling(0.5, t, 99); };
  const LearningCurve curve = curve_of(99, 0.5, loss, 10);
  const LearningCurve shifted = curve_of(99, 0.5, [&](double t) { return 2 * loss(t) - 8; }, 10);
  for (const double bound : {0.4, 0.45, 0.5}) {
    EXPECT_NEAR(model->probability_below(bound, curve, last_step), other->probability_below(2 * bound - 8, shifted, last_step), 1e-6);
  }
}

TEST(CurveModels, WhatDivergesSpoilsNothing) {
  const auto model = parametric_curves();
  for (int64_t trial = 0; trial < 8; ++trial) {
    const double x = static_cast<double>(trial) / 7;
    model->learn(
        curve_of(trial, x, [&](double t) { return falling(x, t, static_cast<uint64_t>(trial)) + (trial == 7 ? 0.01 * std::exp(t / 2) : 0); }));
  }
  const auto loss = [](double t) { return falling(0.5, t, 99); };
  EXPECT_NEAR(quantile(*model, curve_of(99, 0.5, loss, 20), 0.5), loss(last_step), 0.05);
}

TEST(CurveModels, SayNothingBeforeTwoAreComplete) {
  const auto model = parametric_curves();
  const auto loss = [](double t) { return 1 / t; };
  const LearningCurve curve = curve_of(9, 0.5, loss, 10);
  EXPECT_EQ(model->probability_below(-5, curve, last_step), 1);
  model->learn(curve_of(0, 0.5, loss));
  model->learn(curve_of(1, 0.5, loss, 20));
  EXPECT_EQ(model->probability_below(-5, curve, last_step), 1);
  model->learn(curve_of(2, 0.5, loss));
  EXPECT_EQ(model->probability_below(-5, curve, last_step), 1) << "both have the same loss, which is no scale";
  model->learn(curve_of(3, 0.5, [](double t) { return 1 / t + 0.1; }));
  EXPECT_LT(model->probability_below(-5, curve, last_step), 0.01);
}

TEST(CurveModels, RefuseWrongOptions) {
  EXPECT_THROW(parametric_curves({.max_curves = 1}), ContractError);
  EXPECT_THROW(parametric_curves({.max_points = 1}), ContractError);
}

}  // namespace curve_model_test
}  // namespace tw::search
