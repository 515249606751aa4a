// SPDX-License-Identifier: Apache-2.0
// Strategies with unusual models, and with gradients left by earlier runs, without the trainer.
#include "message_of.hpp"
#include "support.hpp"

#include <limits>

#include "diloco_options.hpp"
#include "server_figures.hpp"
#include "strategy.hpp"

namespace make_strategy_test {

using tw::testing::Way;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::diloco_options;
using tw::train::Meeting;
using tw::train::Ranks;
using tw::train::ReplicaOptions;
using tw::train::Sharded;

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
    strategy.accumulate({.weight = 1.0 / world().size()}, [&](double of_all) { (of_all * ((factor * weight).sum() + empty.sum())).backward(); });
    return strategy.update(1);
  }
};

const std::vector<Way> ways{{.name = "every_step"},
                            {.name = "optimizer", .axes = tw::testing::along_shard, .shard = {.what = Sharded::optimizer}},
                            {.name = "parameters", .axes = tw::testing::along_shard},
                            {.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 5}},
                            {.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 5}}};

TEST(MakeStrategy, ParametersMayBeEmpty) {
  for (const Way& way : ways) {
    Odd odd;
    const tw::Mesh mesh(world(), way.axes);
    const Ranks ranks = ranks_of(mesh, odd.model);
    const auto strategy =
        tw::train::make_strategy({.ranks = ranks, .model = odd.model, .optimizer = odd.sgd, .shard = way.shard, .replicas = way.replicas});
    EXPECT_FALSE(odd.update(*strategy, 1).skipped) << way.name;
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << way.name << odd.weight;
    EXPECT_TRUE(odd.update(*strategy, nan).skipped) << way.name;
    EXPECT_TRUE(odd.weight.equal(torch::full({2}, 0.5, torch::kDouble))) << way.name << odd.weight;
  }
}

// If ranks' parameters are averaged only periodically, replicas may differ in between.
TEST(MakeStrategy, NamesAnEmbeddingThatScalesItsOwnRows) {
  for (const Way& way : ways) {
    torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 4).max_norm(0.1)));
    const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
    torch::optim::SGD sgd(model.tensors(), 0.5);
    const tw::Mesh mesh(world(), way.axes);
    const Ranks ranks = ranks_of(mesh, model);
    const std::string message = tw::testing::message_of(
        [&] { (void)tw::train::make_strategy({.ranks = ranks, .model = model, .optimizer = sgd, .shard = way.shard, .replicas = way.replicas}); });
    const bool replicates = world().size() > 1 && way.replicas.meet == Meeting::every_step;
    EXPECT_EQ(message.find("0.weight is the weight of an embedding with max_norm") != std::string::npos, replicates) << way.name << message;
  }
}

TEST(MakeStrategy, WarnsOnceOfAnOrderThatCannotBeUsed) {
  Odd odd;
  const tw::Mesh mesh(world(), {{"data"}});
  const Ranks ranks = ranks_of(mesh, odd.model);
  const Way way;
  testing::internal::CaptureStderr();
  const auto strategy = tw::train::make_strategy(
      {.ranks = ranks, .model = odd.model, .optimizer = odd.sgd, .shard = way.shard, .replicas = way.replicas, .arrival_order = {0, 1, 2}});
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(warning.find("trained other parameters") != std::string::npos, world().rank() == 0) << warning;
  EXPECT_TRUE(strategy->arrival_order().empty());
}

TEST(DiLoCoOptions, AreWhatTheStrategysOptionsSay) {
  const ReplicaOptions options{.compression = CompressionKind::bfloat16, .period = 7, .outer_learning_rate = 0.5, .outer_momentum = 0.25};
  const tw::DiLoCoOptions diloco = diloco_options(options);
  EXPECT_EQ(diloco.period, 7);
  EXPECT_EQ(diloco.outer_learning_rate, 0.5);
  EXPECT_EQ(diloco.outer_momentum, 0.25);
  EXPECT_TRUE(diloco.nesterov);
  EXPECT_EQ(diloco.outer_precision, tw::OuterPrecision::bfloat16);
  EXPECT_FALSE(diloco_options({.outer_momentum = 0}).nesterov);
  EXPECT_EQ(diloco_options({}).outer_precision, tw::OuterPrecision::full);
}

// Of the ranks that exchange: in groups, the others wait for these.
TEST(ServerFigures, AreMeansOverRanksThatExchange) {
  tw::parameter_server::Traffic traffic;
  if (world().rank() == 0) traffic = {.pushes = 3, .pulls = 4, .waited = tw::Seconds(1)};
  const auto figures = tw::train::figures_of(traffic, world(), tw::Seconds(2));
  EXPECT_EQ(figures.pushes_per_s, 1.5);
  EXPECT_EQ(figures.pulls_per_s, 2);
  EXPECT_EQ(figures.waiting_share, 0.5);
  EXPECT_EQ(tw::train::figures_of({}, world(), tw::Seconds(2)).waiting_share, 0);
  const tw::parameter_server::Traffic of_pushes{.pushes = 3, .waited = tw::Seconds(1)};  // of a short run, which takes the values at its end alone
  EXPECT_EQ(tw::train::figures_of(of_pushes, world(), tw::Seconds(2)).waiting_share, 0.5);
}

}  // namespace make_strategy_test
