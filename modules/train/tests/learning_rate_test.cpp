// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/train/learning_rate.hpp>

namespace learning_rate_test {

using tw::train::learning_rate_factor;
using tw::train::LearningRateOptions;
using tw::train::RunLength;

constexpr RunLength length{.steps_per_epoch = 10, .epochs = 4, .global_batch = 256};

TEST(LearningRate, StaysWhereNothingIsAsked) {
  for (int64_t step = 0; step < 40; ++step) EXPECT_EQ(learning_rate_factor({}, length, step), 1.0);
}

TEST(LearningRate, WarmsUpLinearlyToTheFullRate) {
  const LearningRateOptions options{.warm_up_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 2), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 3), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 4), 1.0);
}

TEST(LearningRate, FallsByStepsAtEpochs) {
  const LearningRateOptions options{.decay = LearningRateOptions::Decay::step, .step_epochs = 2, .step_factor = 0.5};
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 19), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 20), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 39), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 40), 0.25);
}

TEST(LearningRate, FollowsACosineToTheEnd) {
  const LearningRateOptions options{.decay = LearningRateOptions::Decay::cosine, .final_factor = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate_factor(options, length, 0), 1.0);
  EXPECT_NEAR(learning_rate_factor(options, length, 20), 0.55, 1e-15);  // half way: the mean of 1 and 0.1
  EXPECT_NEAR(learning_rate_factor(options, length, 40), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate_factor(options, length, 1000), 0.1, 1e-15);
  for (int64_t step = 1; step < 40; ++step) EXPECT_LT(learning_rate_factor(options, length, step), learning_rate_factor(options, length, step - 1));
}

TEST(LearningRate, GrowsWithTheBatch) {
  EXPECT_DOUBLE_EQ(learning_rate_factor({.base_batch = 64}, length, 7), 4.0);
  EXPECT_DOUBLE_EQ(learning_rate_factor({.warm_up_steps = 2, .base_batch = 64}, length, 0), 2.0);
}

TEST(LearningRate, NamesTheWrongField) {
  EXPECT_THROW(LearningRateOptions{.warm_up_steps = -1}.validate(), tw::ContractError);
  EXPECT_THROW(LearningRateOptions{.step_epochs = 0}.validate(), tw::ContractError);
  EXPECT_THROW(LearningRateOptions{.final_factor = 1.5}.validate(), tw::ContractError);
}

}  // namespace learning_rate_test
