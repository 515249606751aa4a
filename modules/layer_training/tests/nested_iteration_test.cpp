// SPDX-License-Identifier: Apache-2.0
// Networks initialised by refinement of smaller ones.
#include "dense.hpp"
#include "features.hpp"
#include "mpi_test.hpp"
#include "refused.hpp"

#include <cmath>
#include <tw/layer_training/nested_iteration.hpp>

namespace tw::layer_training {
namespace nested_iteration_test {

using namespace layer_parallel;
using layer_parallel::features::exact;
using testing::world;

/// A refined network is the same function of time: constant layers and twice the number of steps, that is Euler steps of half the size.
TEST(NestedIteration, RefinementKeepsWeightsAndOptimizerState) {
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

/// The middle of layer k of 12 is at (k + 1/2) / 2 - 1/2 in layers of 6.
TEST(NestedIteration, RefinementMayInterpolate) {
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

TEST(NestedIteration, RefusesAnotherNetwork) {
  const auto blocks = [](int64_t outputs) {
    std::vector<Block> all{block([] { return Dense(4); }, 16)};
    all.push_back(block([outputs] { return torch::nn::Linear(4, outputs); }, 1));
    return all;
  };
  const LayerParallel coarse(world(), blocks(5));
  LayerParallel fine(world(), blocks(10));
  expect_refused<ContractError>([&] { refine(coarse, fine); }, "is not a refinement");
  const LayerParallel smaller(world(), {block([] { return Dense(4); }, 16)});
  LayerParallel larger(world(), blocks(5));
  expect_refused<ContractError>([&] { refine(smaller, larger); }, "has only");
}

}  // namespace nested_iteration_test
}  // namespace tw::layer_training
