// SPDX-License-Identifier: Apache-2.0
// What is done with a network between its passes: its values are asked for, its layers are refined, its random layers go on after a checkpoint.
#include "dense.hpp"
#include "features.hpp"
#include "mpi_test.hpp"
#include "placed.hpp"

#include <cmath>
#include <map>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/nested_iteration.hpp>

namespace tw::layer_parallel {
namespace between_passes_test {

using features::exact;
using features::WithDropout;
using testing::world;

TEST(Features, TheSerialNetworkHasTheValuesOfNow) {
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(4, 6); }, 1), block([] { return Dense(6); }, 10),
                                  block([] { return torch::nn::Linear(6, 2); }, 1)};
  LayerParallel net(world(), blocks, exact());
  {
    const torch::NoGradGuard no_gradients;
    for (const NamedShard& shard : net.shards()) shard.tensor.mul_(1.5);
  }
  const torch::Tensor x = torch::ones({2, 4});
  const torch::Tensor y = net.forward(x).detach();
  const auto serial = net.serial_on_root();
  ASSERT_EQ(serial != nullptr, world().rank() == 0);
  if (serial) {
    EXPECT_LE(relative_difference(serial->forward(x).detach(), y), 1e-5);
  }
}

TEST(Features, SmoothnessPenaltyIsThatOfNeighbouringLayers) {
  const std::vector<Block> blocks{block([] { return Dense(3); }, 10)};
  LayerParallel net(world(), blocks, exact());
  net.to(torch::kDouble);
  const double penalty = net.add_smoothness_penalty(0.5);
  SerialNetwork serial(blocks, exact());
  serial.to(torch::kDouble);
  torch::Tensor expected = torch::zeros({}, torch::kDouble);
  for (size_t k = 0; k + 1 < 10; ++k) {
    const auto a = serial.layers(0)[k].module->parameters();
    const auto b = serial.layers(0)[k + 1].module->parameters();
    for (size_t p = 0; p < a.size(); ++p) expected = expected + 0.5 / 2 * 10 * (b[p] - a[p]).square().sum();
  }
  expected.backward();
  EXPECT_NEAR(penalty, expected.item<double>(), 1e-12 * penalty);
  const auto parameters = net.named_parameters();
  for (const NamedShard& shard : net.shards()) {
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) {
      const auto layer = serial.layers(0)[static_cast<size_t>(shard.offsets[0] + i)].module->named_parameters();
      EXPECT_LE(relative_difference(parameters[shard.name].grad()[i], layer[shard.name.substr(2)].grad()), 1e-12);
    }
  }
}

/// A refined network is the same function of time: with constant layers and twice the steps, Euler steps of half the size.
TEST(Features, RefinementKeepsWeightsAndOptimizerState) {
  const auto blocks = [](int64_t layers) {
    return std::vector<Block>{block([] { return torch::nn::Linear(3, 4); }, 1), block([] { return Dense(4); }, layers)};
  };
  LayerParallel coarse(world(), blocks(6), exact());
  torch::optim::Adam coarse_adam(coarse.parameters(), 1e-2);
  for (int i = 0; i < 2; ++i) {
    coarse.zero_grad();
    coarse.forward(torch::ones({2, 3})).sum().backward();
    coarse_adam.step();
  }
  LayerParallel fine(world(), blocks(18), exact());
  torch::optim::Adam fine_adam(fine.parameters(), 1e-2);
  refine(coarse, coarse_adam, fine, fine_adam);
  const auto coarse_net = coarse.serial_on_root();
  const auto fine_net = fine.serial_on_root();
  if (world().rank() == 0) {
    for (size_t k = 0; k < 18; ++k) {
      const auto ours = fine_net->layers(1)[k].module->parameters();
      const auto theirs = coarse_net->layers(1)[k / 3].module->parameters();
      for (size_t p = 0; p < ours.size(); ++p) EXPECT_TRUE(ours[p].equal(theirs[p])) << k;
    }
    EXPECT_TRUE(fine_net->layers(0)[0].module->parameters()[0].equal(coarse_net->layers(0)[0].module->parameters()[0]));
  }
  EXPECT_EQ(fine_adam.state().size(), fine.parameters().size());
  for (const torch::Tensor& p : fine.parameters()) {
    const auto& state = static_cast<torch::optim::AdamParamState&>(*fine_adam.state().at(p.unsafeGetTensorImpl()));
    EXPECT_EQ(state.step(), 2);
    EXPECT_GT(state.exp_avg_sq().sum().item<double>(), 0);
  }
  if (world().size() == 1) {
    for (const auto& p : fine.named_parameters()) {
      const auto moment = [&](const torch::optim::Adam& adam, const torch::Tensor& of) {
        return static_cast<torch::optim::AdamParamState&>(*adam.state().at(of.unsafeGetTensorImpl())).exp_avg();
      };
      const torch::Tensor theirs = moment(coarse_adam, coarse.named_parameters()[p.key()]);
      const bool is_of_layers = p.key().starts_with("1.");
      EXPECT_TRUE(moment(fine_adam, p.value()).equal(is_of_layers ? theirs.repeat_interleave(3, 0) : theirs)) << p.key();
    }
  }
}

/// Layer k of 12 has its middle at (k + 1/2) / 2 - 1/2 in layers of 6.
TEST(Features, RefinementMayInterpolate) {
  LayerParallel coarse(world(), {block([] { return Dense(2); }, 6)}, exact());
  LayerParallel fine(world(), {block([] { return Dense(2); }, 12)}, exact());
  const torch::NoGradGuard no_gradients;
  for (const NamedShard& shard : coarse.shards()) {
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) shard.tensor[i].fill_(shard.offsets[0] + i);
  }
  refine(coarse, fine, Refinement::linear);
  for (const NamedShard& shard : fine.shards()) {
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) {
      const double place = std::clamp(static_cast<double>(shard.offsets[0] + i) / 2 - 0.25, 0.0, 5.0);
      EXPECT_TRUE(shard.tensor[i].allclose(torch::full_like(shard.tensor[i], place))) << shard.offsets[0] + i;
    }
  }
}

TEST(Features, RandomLayersGoOnWhereTheyWere) {
  const std::vector<Block> blocks{block([] { return WithDropout(); }, 8, {.random = true})};
  const torch::Tensor x = torch::ones({3, 4});
  LayerParallel net(world(), blocks, exact());
  for (int pass = 0; pass < 3; ++pass) net.forward(x);
  LayerParallel resumed(world(), blocks, exact());
  const std::vector<NamedShard> saved = net.shards();
  const std::vector<NamedShard> loaded = resumed.shards();
  for (size_t i = 0; i < saved.size(); ++i) loaded[i].tensor.copy_(saved[i].tensor);
  const auto serial = net.serial_on_root();
  const torch::Tensor next = net.forward(x).detach();
  EXPECT_TRUE(resumed.forward(x).equal(next));
  if (serial) {
    EXPECT_LE(relative_difference(serial->forward(x).detach(), next), 1e-5);
  }
}

}  // namespace between_passes_test
}  // namespace tw::layer_parallel
