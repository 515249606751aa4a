// SPDX-License-Identifier: Apache-2.0
// Strategies with unusual models, and with gradients left by earlier runs, without the trainer.
#include "message_of.hpp"
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

/// A model of tensors only.
class Tensors : public tw::TrainableModel {
 public:
  explicit Tensors(tw::ModelTensors tensors) : tensors_(std::move(tensors)) {}
  tw::ModelTensors tensors() const override { return tensors_; }
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }

 private:
  tw::ModelTensors tensors_;
};

/// Two trained numbers, and a trained parameter without elements.
struct Odd {
  at::Tensor weight = torch::ones({2}, torch::dtype(torch::kDouble).requires_grad(true));
  at::Tensor empty = torch::ones({0, 3}, torch::dtype(torch::kDouble).requires_grad(true));
  tw::train::Model model = tw::train::model_of(std::make_shared<Tensors>(tw::ModelTensors{.parameters = {{"weight", weight}, {"empty", empty}}}));
  torch::optim::SGD sgd{model.tensors(), 0.5};

  tw::train::Outcome update(tw::train::Strategy& strategy, double factor) {
    strategy.zero_grad();
    strategy.accumulate({.here = 1, .samples = world().size()},
                        [&](double of_all) { (of_all * ((factor * weight).sum() + empty.sum())).backward(); });
    return strategy.update(1);
  }
};

TEST(MakeStrategy, ParametersMayBeEmpty) {
  for (const auto kind : {StrategyKind::data, StrategyKind::sharded, StrategyKind::fully_sharded, StrategyKind::local_sgd, StrategyKind::diloco}) {
    Odd odd;
    const tw::train::Ranks ranks{world(), world()};
    const StrategyOptions options{.kind = kind, .period = 5};
    const auto strategy = tw::train::make_strategy({.ranks = ranks, .model = odd.model, .optimizer = odd.sgd, .options = options});
    EXPECT_FALSE(odd.update(*strategy, 1).left_out);
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << odd.weight;
    EXPECT_TRUE(odd.update(*strategy, nan).left_out);
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << odd.weight;
  }
}

// If ranks' parameters are averaged only periodically, replicas may differ in between.
TEST(MakeStrategy, NamesAnEmbeddingThatScalesItsOwnRows) {
  using enum StrategyKind;
  for (const auto kind : {data, sharded, fully_sharded, local_sgd, diloco}) {
    torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 4).max_norm(0.1)));
    const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
    torch::optim::SGD sgd(model.tensors(), 0.5);
    const tw::train::Ranks ranks{world(), world()};
    const StrategyOptions options{.kind = kind, .period = 5};
    const std::string message =
        tw::testing::message_of([&] { (void)tw::train::make_strategy({.ranks = ranks, .model = model, .optimizer = sgd, .options = options}); });
    const bool replicates = world().size() > 1 && kind != local_sgd && kind != diloco;
    EXPECT_EQ(message.find("0.weight is the weight of an embedding with max_norm") != std::string::npos, replicates) << message;
  }
}

TEST(MakeStrategy, WarnsOnceOfAnOrderThatCannotBeUsed) {
  Odd odd;
  const tw::train::Ranks ranks{world(), world()};
  const StrategyOptions options;
  testing::internal::CaptureStderr();
  const auto strategy =
      tw::train::make_strategy({.ranks = ranks, .model = odd.model, .optimizer = odd.sgd, .options = options, .arrival_order = {0, 1, 2}});
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
