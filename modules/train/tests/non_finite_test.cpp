// SPDX-License-Identifier: Apache-2.0
// A loss or a gradient that is not finite, on one rank: reported with step, rank and parameter, and met by the reaction that was chosen.
#include "support.hpp"

#include <limits>

namespace {

using tw::testing::make_regressor;
using tw::testing::squares;
using tw::testing::world;
using tw::train::NonFinite;
using tw::train::Trainer;

tw::train::Options options_for(const std::string& name, NonFinite reaction) {
  auto options = tw::testing::quick(name);
  options.epochs = 2;
  options.batch_size = 3;
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  options.non_finite = reaction;
  return options;
}

/// Spoils the inputs of the last rank's batch in step `step`, once.
struct Spoiler : tw::train::Hook {
  Spoiler(int64_t at, double with) : step(at), value(with) {}
  void on_sample(tw::train::State& state) override {
    if (state.step == step && state.comm.rank() == state.comm.size() - 1 && !done) state.batch.inputs[0][0].fill_(value);
    done = done || state.step == step;
  }
  int64_t step;
  double value;
  bool done = false;
};

struct Outcome {
  tw::train::Summary summary;
  tw::train::Model model;
};

Outcome run(const tw::train::Options& options, int64_t step, double value) {
  Outcome outcome{{}, make_regressor(0)};
  torch::optim::Adam adam(outcome.model.tensors(), 0.01);
  const auto data = squares(12 * world().size());  // 4 steps an epoch
  Trainer trainer(world(), outcome.model, adam, tw::train::regression(), data, data, options);
  Spoiler spoiler(step, value);
  trainer.add(spoiler);
  outcome.summary = trainer.run();
  return outcome;
}

void expect_finite(const tw::train::Model& model) {
  for (const auto& parameter : model.parameters) EXPECT_TRUE(torch::isfinite(parameter.tensor).all().item<bool>()) << parameter.name;
}

TEST(NonFinite, StopsAndNamesStepRankAndParameter) {
  const auto outcome = run(options_for("nan_stop", NonFinite::stop), 2, std::numeric_limits<double>::quiet_NaN());
  const std::string who = tw::concat("step 3: rank ", world().size() - 1, ": the loss is nan, the gradient of 0.weight is not finite");
  EXPECT_EQ(outcome.summary.stopped_because, who);
  EXPECT_FALSE(outcome.summary.finished);
  expect_finite(outcome.model);
}

TEST(NonFinite, LeavesTheUpdateOut) {
  const auto outcome = run(options_for("nan_skip", NonFinite::skip), 2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  EXPECT_EQ(outcome.summary.steps, 8);
  EXPECT_TRUE(outcome.summary.finished);
  expect_finite(outcome.model);
}

TEST(NonFinite, SeesInfiniteGradientsOfAFiniteLoss) {
  // An input of 1e308 saturates the hidden layer: the loss is finite, the gradient of the first weights is an infinite input times zero.
  const auto outcome = run(options_for("inf_skip", NonFinite::skip), 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  expect_finite(outcome.model);
}

TEST(NonFinite, GoesBackToTheCheckpoint) {
  const auto outcome = run(options_for("nan_restore", NonFinite::restore), 6, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  EXPECT_EQ(outcome.summary.steps, 8);
  EXPECT_TRUE(outcome.summary.finished);
  expect_finite(outcome.model);
}

TEST(NonFinite, EndsWhereThereIsNothingToGoBackTo) {
  const auto outcome = run(options_for("nan_nothing", NonFinite::restore), 2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(outcome.summary.finished);
  EXPECT_NE(outcome.summary.stopped_because.find("the loss is nan"), std::string::npos);
}

}  // namespace
