// SPDX-License-Identifier: Apache-2.0
// What strategies make of odd models and of what earlier runs left, without the trainer.
#include "support.hpp"

#include <limits>

#include "diloco_options.hpp"
#include "strategy.hpp"

namespace make_strategy_test {

using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::diloco_options;
using tw::train::StrategyKind;
using tw::train::StrategyOptions;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Two numbers that are trained, and what takes part without an element.
struct Odd {
  at::Tensor weight = torch::ones({2}, torch::dtype(torch::kDouble).requires_grad(true));
  at::Tensor empty = torch::ones({0, 3}, torch::dtype(torch::kDouble).requires_grad(true));
  tw::train::Model model{.parameters = {{"weight", weight}, {"empty", empty}}, .buffers = {}, .forward = {}};
  torch::optim::SGD sgd{model.tensors(), 0.5};

  tw::train::Outcome update(tw::train::Strategy& strategy, double factor) {
    strategy.zero_grad();
    strategy.backward((factor * weight).sum() + empty.sum(), 1, world().size(), /*last=*/true);
    return strategy.update();
  }
};

TEST(MakeStrategy, ParametersMayBeEmpty) {
  for (const auto kind : {StrategyKind::data, StrategyKind::sharded, StrategyKind::local_sgd, StrategyKind::diloco}) {
    Odd odd;
    const auto strategy = make_strategy({world(), world()}, odd.model, odd.sgd, {.kind = kind, .period = 5}, {}, {});
    EXPECT_FALSE(odd.update(*strategy, 1).left_out);
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << odd.weight;
    EXPECT_TRUE(odd.update(*strategy, nan).left_out);
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << odd.weight;
  }
}

TEST(MakeStrategy, WarnsOnceOfAnOrderThatCannotBeUsed) {
  Odd odd;
  testing::internal::CaptureStderr();
  const auto strategy = make_strategy({world(), world()}, odd.model, odd.sgd, {}, {0, 1, 2}, {});
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warning.find("trained other parameters") != std::string::npos, world().rank() == 0) << warning;
  EXPECT_TRUE(strategy->arrival_order().empty());
}

TEST(DiLoCoOptions, AreWhatTheStrategysOptionsSay) {
  const StrategyOptions options{.compression = CompressionKind::bfloat16, .period = 7, .outer_learning_rate = 0.5, .outer_momentum = 0.25};
  const tw::DiLoCoOptions diloco = diloco_options(options);
  EXPECT_EQ(diloco.period, 7);
  EXPECT_EQ(diloco.outer_learning_rate, 0.5);
  EXPECT_EQ(diloco.outer_momentum, 0.25);
  EXPECT_TRUE(diloco.nesterov);
  EXPECT_EQ(diloco.outer_precision, tw::OuterPrecision::bfloat16);
  EXPECT_FALSE(diloco_options({.outer_momentum = 0}).nesterov);
  EXPECT_EQ(diloco_options({}).outer_precision, tw::OuterPrecision::full);
}

}  // namespace make_strategy_test
