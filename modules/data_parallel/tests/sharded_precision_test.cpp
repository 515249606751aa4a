// SPDX-License-Identifier: Apache-2.0
// Sharded optimizers of models in half precision: master weights and loss scaling.
#include "sharded_optimizer_training.hpp"

namespace sharded_precision_test {

using tw::testing::make_optimizer;
using tw::testing::place;
using tw::testing::world;
using namespace tw::testing::sharded_optimizer;

// bfloat16 with float32 master weights, against a hand-written loop in one process: in both, the reduced gradient is a bfloat16 tensor.
TEST(ShardedOptimizer, HalfPrecisionHasMasterWeights) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    auto net = make_net(dtype);
    std::vector<at::Tensor> masters;
    for (const at::Tensor& parameter : net->parameters()) masters.push_back(parameter.detach().to(torch::kFloat));
    const auto reference = make_optimizer("Adam", masters);
    const auto prototype = make_optimizer("Adam", net->parameters());
    tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .check_finite = true, .sharding = tw::Sharding::slices});
    tw::ShardedOptimizer optimizer(parallel.reducer(), parallel.parameters(), tw::optimizer_like(*prototype, parallel.parameters()));
    tw::LossScaler scaler({.scale = 1024, .growth_interval = 3});
    for (int64_t step = 0; step < 6; ++step) {
      // All ranks have the same samples: the mean of equal gradients equals each of them, except for one rounding of 1/P before the sum.
      const Samples samples = samples_of(step, 0, each, dtype);
      const double scale = scaler.scale();
      std::vector<at::Tensor> gradients;
      const auto parameters = net->parameters();
      const auto local = torch::autograd::grad({loss_of(net, samples) * scale}, parameters);
      for (size_t i = 0; i < masters.size(); ++i) {
        const at::Tensor part = local[i] * (1.0 / world().size());
        const at::Tensor sum = (part.to(torch::kFloat) * world().size()).to(dtype);  // halves are summed in float32
        masters[i].mutable_grad() = sum.to(torch::kFloat) / scale;
      }
      reference->step();
      (loss_of(net, samples) * scale).backward();
      EXPECT_TRUE(optimizer.step(scaler));
      for (size_t i = 0; i < masters.size(); ++i) {
        // A sum of equal float32 numbers and their product differ by a few roundings, which can round to a neighbouring half.
        const double difference = (parameters[i].to(torch::kFloat) - masters[i].to(dtype).to(torch::kFloat)).norm().item<double>();
        EXPECT_LE(difference, 0.01 * masters[i].norm().item<double>()) << i;
      }
    }
    EXPECT_EQ(scaler.scale(), 4096);
  }
}

// Changes to half parameters reach the master weights, and nothing else changes there.
TEST(ShardedOptimizer, MasterWeightsFollowTheParameters) {
  auto net = make_net(torch::kBFloat16);
  const auto prototype = make_optimizer("SGD", net->parameters());
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices});
  tw::ShardedOptimizer optimizer(parallel.reducer(), parallel.parameters(), tw::optimizer_like(*prototype, parallel.parameters()));
  for (auto& group : optimizer.local().param_groups()) group.options().set_lr(1e-6);  // too small for a step to be visible in bfloat16
  const auto step = [&] {
    loss_of(net, samples_of(0, 0, each, torch::kBFloat16)).backward();
    optimizer.step();
  };
  step();
  const auto masters = [&] {
    std::vector<at::Tensor> all;
    for (const tw::NamedShard& shard : optimizer.master_shards()) all.push_back(shard.tensor.clone());
    return all;
  };
  const std::vector<at::Tensor> before = masters();
  {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& parameter : net->parameters()) parameter.clamp_(-0.05, 0.05);
  }
  step();
  for (const at::Tensor& parameter : net->parameters()) EXPECT_LE(parameter.abs().max().item<double>(), 0.0503) << "clamped, and a tiny step";
  const std::vector<at::Tensor> after = masters();
  for (size_t i = 0; i < before.size(); ++i) {
    const at::Tensor moved = (after[i] - before[i]).masked_fill(before[i].abs() > 0.0498, 0).abs();
    if (moved.numel() > 0) {
      EXPECT_LE(moved.max().item<double>(), 2e-5) << "rounded to bfloat16, it would move by up to 1.2e-4";
    }
  }
}

TEST(ShardedOptimizer, AnOverflowOnOneRankLeavesTheUpdateOutEverywhere) {
  auto net = make_net(torch::kHalf);
  const auto prototype = make_optimizer("SGD", net->parameters());
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .check_finite = true, .sharding = tw::Sharding::slices});
  tw::ShardedOptimizer optimizer(parallel.reducer(), parallel.parameters(), tw::optimizer_like(*prototype, parallel.parameters()));
  tw::LossScaler scaler;
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : net->parameters()) before.push_back(parameter.detach().clone());
  at::Tensor loss = loss_of(net, samples_of(0, 0, each, torch::kHalf));
  if (world().rank() == world().size() - 1) loss = loss * std::numeric_limits<double>::infinity();
  loss.backward();
  EXPECT_FALSE(optimizer.step(scaler));
  EXPECT_EQ(scaler.scale(), 32768);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(net->parameters()[i].equal(before[i]));
  (loss_of(net, samples_of(1, 0, each, torch::kHalf)) * 2.0).backward();
  EXPECT_TRUE(optimizer.step(scaler));
}

}  // namespace sharded_precision_test
