// SPDX-License-Identifier: Apache-2.0
// What trials carry from one time to the next, and from rank to rank.
#include "mpi_test.hpp"

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

#include "checkpoints.hpp"

namespace tw::search {
namespace checkpoints_test {

using testing::world;

struct Net {
  explicit Net(int64_t seed, int64_t width = 8) {
    torch::manual_seed(seed);
    layers = torch::nn::Sequential(torch::nn::Linear(4, width), torch::nn::BatchNorm1d(width), torch::nn::Linear(width, 2));
    for (auto& each : layers->parameters()) each.set_requires_grad(true);
  }
  template <class Optimizer>
  void train(Optimizer& optimizer, int64_t steps) {
    for (int64_t step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      const at::Tensor inputs = torch::arange(24, torch::kFloat).reshape({6, 4}) / static_cast<double>(10 + step);
      layers->forward(inputs).square().sum().backward();
      optimizer.step();
    }
  }
  torch::nn::Sequential layers;
};

void expect_equal(const Net& a, const Net& b) {
  const auto ours = a.layers->named_parameters();
  for (const auto& each : b.layers->named_parameters()) EXPECT_TRUE(torch::equal(ours[each.key()], each.value())) << each.key();
  const auto buffers = a.layers->named_buffers();
  for (const auto& each : b.layers->named_buffers()) EXPECT_TRUE(torch::equal(buffers[each.key()], each.value())) << each.key();
}

/// A net that goes on from a copy takes the same steps: parameters, running means, moments and Adam's count of steps are there.
TEST(Checkpoints, WhatGoesOnFromACopyIsTheSame) {
  Net net(1);
  torch::optim::Adam adam(net.layers->parameters(), 0.01);
  net.train(adam, 3);
  Checkpoints checkpoints;
  checkpoints.capture(7, attachment_of(*net.layers, adam));
  checkpoints.copy(7, 8);
  net.train(adam, 5);  // what was captured does not change with it

  Net other(2);
  torch::optim::Adam fresh(other.layers->parameters(), 0.01);
  other.train(fresh, 1);
  checkpoints.restore(8, attachment_of(*other.layers, fresh));
  other.train(fresh, 5);
  expect_equal(net, other);
}

/// As of a sharded optimizer: of a tensor that its run of elements begins and ends in the middle of, a rank has several boxes.
TEST(Checkpoints, HaveSeveralSlicesOfOneTensor) {
  const at::Tensor run = torch::arange(7, torch::kDouble);
  const std::vector<NamedShard> slices = slices_of_run("moment", {4, 3}, run, 2, ShardKind::optimizer);  // 1, 3, and 3 elements
  ASSERT_GT(slices.size(), 1U);
  const Attachment attachment{.shards = [&] { return slices; }};
  Checkpoints checkpoints;
  checkpoints.capture(1, attachment);
  run.zero_();
  checkpoints.restore(1, attachment);
  EXPECT_TRUE(run.equal(torch::arange(7, torch::kDouble))) << run;
}

TEST(Checkpoints, TensorsOfAnyKindComeBack) {
  const at::Tensor transposed = torch::arange(6, torch::kDouble).reshape({2, 3}).t();
  const at::Tensor count = torch::full({}, 5, torch::kLong);
  const at::Tensor none = torch::empty({0, 3});
  const Attachment attachment = attachment_of({{"a", transposed}, {"b", count}, {"c", none}});
  Checkpoints checkpoints;
  checkpoints.capture(0, attachment);
  transposed.zero_();
  count.zero_();
  checkpoints.restore(0, attachment);
  EXPECT_TRUE(torch::equal(transposed, torch::arange(6, torch::kDouble).reshape({2, 3}).t()));
  EXPECT_EQ(count.item<int64_t>(), 5);
}

TEST(Checkpoints, NamesWhatDoesNotFit) {
  Net net(1);
  torch::optim::SGD sgd(net.layers->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Checkpoints checkpoints;
  checkpoints.capture(0, attachment_of(*net.layers, sgd));
  Net wider(1, 16);
  torch::optim::SGD other(wider.layers->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  try {
    checkpoints.restore(0, attachment_of(*wider.layers, other));
    FAIL() << "nothing thrown";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("0.weight with shape [16, 4], but its stored tensor has shape [8, 4]"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(checkpoints.restore(0, attachment_of({{"x", torch::zeros(1)}})), ContractError);
}

/// Everyone sends two states to everyone, in messages that are shorter than they are, and gets those of all others in any order.
TEST(Checkpoints, GoFromRankToRank) {
  Checkpoints checkpoints;
  checkpoints.connect(world(), /*letter_bytes=*/100);
  const int ranks = world().size();
  const int own = world().rank();
  const auto state = [](int rank, int trial) { return torch::arange(50, torch::kDouble) + 100 * rank + 1000 * trial; };
  for (int trial = 0; trial < 2; ++trial) {
    checkpoints.capture(trial, attachment_of({{concat("of ", own), state(own, trial)}}));
    for (int to = 0; to < ranks; ++to) {
      if (to != own) checkpoints.send(trial, to);
    }
  }
  for (int from = ranks - 1; from >= 0; --from) {
    if (from == own) continue;
    checkpoints.receive(from, -1);
    EXPECT_FALSE(checkpoints.has(-1)) << "nobody's";
    checkpoints.receive(from, 10 + from);
    const at::Tensor got = torch::zeros(50, torch::kDouble);
    checkpoints.restore(10 + from, attachment_of({{concat("of ", from), got}}));
    EXPECT_TRUE(torch::equal(got, state(from, 1)));
  }
  world().barrier();
}

}  // namespace checkpoints_test
}  // namespace tw::search
