// SPDX-License-Identifier: Apache-2.0
// Uses of a network between its passes: reading its values, and resuming random layers from a checkpoint.
#include "dense.hpp"
#include "features.hpp"
#include "mpi_test.hpp"

#include <tw/layer_parallel/layer_parallel.hpp>

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
