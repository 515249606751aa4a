// SPDX-License-Identifier: Apache-2.0
// A model in stages computes the same as one process, for any schedule; an error on one rank stops no other rank from returning.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/error.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/list_schedule.hpp>
#include <tw/planning/stage_ranks.hpp>

namespace tw::pipeline {
namespace pipeline_test {

using testing::world;

/// Nothing to train in the first blocks, and blocks that modify their input.
std::vector<BlockFactory> odd() {
  const auto relu = [] { return torch::nn::ReLU(torch::nn::ReLUOptions(true)); };
  return {block([] { return torch::nn::Flatten(); }),
          block([] { return torch::nn::Linear(3, 6); }),
          block(relu),
          block([] { return torch::nn::Linear(6, 6); }),
          block(relu),
          block([] { return torch::nn::Linear(6, 2); })};
}

std::vector<BlockFactory> mlp(int64_t hidden) {
  std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(3, 6); })};
  for (int64_t i = 0; i < hidden; ++i) {
    blocks.push_back(block([] { return torch::nn::Tanh(); }));
    blocks.push_back(block([] { return torch::nn::Linear(6, 6); }));
  }
  blocks.push_back(block([] { return torch::nn::Linear(6, 2); }));
  return blocks;
}

/// The same model in one process.
struct Whole : torch::nn::Module {
  explicit Whole(const std::vector<BlockFactory>& blocks) {
    for (const BlockFactory& make : blocks) {
      parts.push_back(make());
      register_module(std::to_string(parts.size() - 1), parts.back().module);
    }
  }
  torch::Tensor forward(torch::Tensor x) const {
    for (const Block& part : parts) x = part.forward(x);
    return x;
  }
  std::vector<Block> parts;
};

// The mean over all elements, so micro-batches count in proportion to their rows.
torch::Tensor squares(const torch::Tensor& y, const torch::Tensor& t) { return (y - t).square().mean(); }

/// Runs three steps of both, and compares loss, gradients and parameters of this rank with the whole model's.
void expect_equals_one_process(const Schedule& schedule, int64_t rows, const std::string& what, const std::vector<BlockFactory>& blocks = mlp(3)) {
  torch::manual_seed(1);
  Whole expected(blocks);
  expected.to(torch::kDouble);
  torch::manual_seed(1);
  Pipeline ours(world(), blocks, {.schedule = schedule});
  ours.to(torch::kDouble);
  torch::optim::SGD expected_sgd(expected.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const bool has_parameters = !ours.parameters().empty();
  std::optional<torch::optim::SGD> sgd;
  if (has_parameters) sgd.emplace(ours.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(static_cast<uint64_t>(10 + step));
    const torch::Tensor x = torch::randn({rows, 3}, torch::kDouble);
    const torch::Tensor t = torch::randn({rows, 2}, torch::kDouble);
    expected.zero_grad();
    ours.zero_grad();
    const torch::Tensor loss = squares(expected.forward(x), t);
    loss.backward();
    // float64; sums over rows in a different order
    EXPECT_NEAR(ours.run(x, t, squares), loss.item<double>(), 1e-12) << what;
    const auto theirs = expected.named_parameters();
    for (const auto& p : ours.named_parameters()) {
      EXPECT_LE((p.value().grad() - theirs[p.key()].grad()).norm().item<double>(), 1e-12) << what << ": " << p.key();
    }
    expected_sgd.step();
    if (sgd) sgd->step();
    for (const auto& p : ours.named_parameters()) {
      EXPECT_LE((p.value() - theirs[p.key()]).norm().item<double>(), 1e-12) << what << ": " << p.key();
    }
    EXPECT_LE((ours.forward(x) - expected.forward(x)).norm().item<double>(), 1e-12) << what;
  }
}

TEST(Pipeline, EqualsOneProcess) {
  for (const int m : {1, 2, 4, 7}) {
    for (const int64_t rows : {3, 8, 11}) {
      const std::string what = concat(m, " micro-batches of ", rows, " rows");
      expect_equals_one_process(gpipe(world().size(), m), rows, "gpipe, " + what);
      expect_equals_one_process(one_forward_one_backward(world().size(), m), rows, "1F1B, " + what);
    }
  }
}

TEST(Pipeline, TakesBlocksWithoutParametersAndInPlace) { expect_equals_one_process(one_forward_one_backward(world().size(), 3), 7, "odd", odd()); }

/// The first stages as in GPipe, the others as in 1F1B; the reverse would deadlock.
TEST(Pipeline, RunsAScheduleOfOnesOwn) {
  Schedule own = one_forward_one_backward(world().size(), 5);
  const Schedule late = gpipe(world().size(), 5);
  std::copy_n(late.devices.begin(), (own.devices.size() + 1) / 2, own.devices.begin());
  expect_equals_one_process(schedule_from_text(to_text(own)), 10, "own");
  std::ranges::reverse(own.devices);
  expect_equals_one_process(own, 10, "own, from the last rank to the first");
}

/// A block may work in place on outputs that the previous stage's graph keeps, also on the same rank.
TEST(Pipeline, StagesOfARankWorkInPlaceOnCopies) {
  const int size = world().size();
  std::vector<int> device_of;
  for (int stage = 0; stage < 2 * size; ++stage) device_of.push_back(stage / 2);
  const Schedule schedule = list_schedule({.micro_batches = 2,
                                           .device_of_stages = device_of,
                                           .times = std::vector<PassTimes>(device_of.size()),
                                           .most_held = std::vector<int>(static_cast<size_t>(size), 4)});
  std::vector<torch::Tensor> gradients;
  for (const bool in_place : {false, true}) {
    torch::manual_seed(2);
    const BlockFactory saves = block([] { return torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::Tanh()); });
    const BlockFactory changes =
        block([in_place] { return torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().inplace(in_place).negative_slope(0.5)); });
    std::vector<BlockFactory> blocks;
    for (int i = 0; i < size; ++i) blocks.insert(blocks.end(), {saves, changes});
    Pipeline model(world(), blocks, {.schedule = schedule});
    const torch::Tensor x = torch::ones({4, 3});
    model.run(x, x, squares);
    gradients.push_back(model.parameters().front().grad());
  }
  EXPECT_TRUE(gradients[0].equal(gradients[1])) << gradients[0] << gradients[1];
}

/// Counts passes in a buffer, or multiplies by a weight and that buffer.
struct Counter : torch::nn::Module {
  Counter(const torch::Tensor& shared, bool is_counting) : count(register_buffer("count", shared)), counts(is_counting) {
    if (!is_counting) weight = register_parameter("weight", torch::ones({3}, torch::kDouble));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (!counts) return x * weight * count.clone();
    count.add_(1);
    return x + 0;
  }
  torch::Tensor count;
  torch::Tensor weight;
  bool counts;
};

/// Recomputation of one stage sees buffers as they were, though another stage of the rank has changed them since.
TEST(Pipeline, RecomputesWithTheBuffersOfThePassOnARankWithSeveralStages) {
  const int size = world().size();
  std::vector<torch::Tensor> gradients;
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    const torch::Tensor count = torch::ones({}, torch::kDouble);
    std::vector<BlockFactory> blocks(static_cast<size_t>(2 * size), block([] { return torch::nn::Identity(); }));
    for (const bool counts : {true, false}) {
      blocks[counts ? 0 : static_cast<size_t>(size)] = [count, counts] {
        const auto module = std::make_shared<Counter>(count, counts);
        return Block{module, [module](const torch::Tensor& x) { return module->forward(x); }};
      };
    }
    const int parts = 2 * size;
    Pipeline model(world(), blocks, {.schedule = interleaved(size, 2, parts), .recompute = std::vector(static_cast<size_t>(2 * size), recompute)});
    const torch::Tensor x = torch::ones({2 * parts, 3}, torch::kDouble);
    model.run(x, x, squares);
    for (const torch::Tensor& each : model.parameters()) gradients.push_back(each.grad());
  }
  EXPECT_EQ(gradients.size(), world().rank() == 0 ? 2U : 0U);
  if (gradients.size() == 2) {
    EXPECT_TRUE(gradients[0].equal(gradients[1])) << gradients[0] << gradients[1];
  }
}

TEST(Pipeline, KeepsItsOwnBlocksAndNoOthers) {
  const auto blocks = mlp(4);
  const Pipeline model(world(), blocks, {.schedule = gpipe(world().size(), 2)});
  const Rows own = part_of({0, 10}, world().size(), model.stages().front());
  int64_t next = own.begin;
  for (const auto& block : model.named_children()) EXPECT_EQ(block.key(), std::to_string(next++));
  EXPECT_EQ(next, own.end);
}

TEST(Pipeline, RefusesWhatCannotRun) {
  const auto blocks = mlp(2);
  const int size = world().size();
  EXPECT_THROW(Pipeline(world(), blocks, {.schedule = gpipe(size + 1, 2)}), ContractError);
  EXPECT_THROW(Pipeline(world(), {blocks.begin(), blocks.begin() + size - 1}, {.schedule = gpipe(size, 2)}), ContractError);
  Schedule incomplete = gpipe(size, 2);
  incomplete.devices[0].pop_back();
  EXPECT_THROW(Pipeline(world(), blocks, {.schedule = incomplete}), ContractError);
  Pipeline model(world(), blocks, {.schedule = gpipe(size, 4)});
  EXPECT_THROW(model.run(torch::ones({8, 3}), torch::ones({6, 2}), squares), ContractError) << "other targets";
  EXPECT_THROW(model.run(torch::ones({0, 3}), torch::ones({0, 2}), squares), ContractError) << "no rows";
  EXPECT_NO_THROW(model.run(torch::ones({3, 3}), torch::ones({3, 2}), squares)) << "a batch of other rows than refused ones";
}

struct DetachImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x.detach(); }
};
TORCH_MODULE(Detach);

// As in one process: a tensor that the loss does not depend on has no gradient, so weight decay and momentum do not change it.
TEST(Pipeline, WhatIsDetachedBehindTheCutHasNoGradient) {
  const auto linear = block([] { return torch::nn::Linear(3, 3); });
  std::vector<BlockFactory> blocks(static_cast<size_t>(3 * world().size() - 2), linear);  // three on each stage
  blocks.push_back(block([] { return Detach(); }));
  blocks.push_back(linear);
  PipelineOptions options{.schedule = one_forward_one_backward(world().size(), 3)};
  const std::string trained = concat(blocks.size() - 1, '.');
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    options.recompute.assign(static_cast<size_t>(world().size()), recompute);
    Pipeline model(world(), blocks, options);
    const torch::Tensor x = torch::ones({6, 3});
    model.run(x, x, squares);
    for (const auto& p : model.named_parameters()) EXPECT_EQ(p.value().grad().defined(), p.key().starts_with(trained)) << p.key();
  }
}

struct AlwaysDropsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return torch::dropout(x, 0.5, true); }
};
TORCH_MODULE(AlwaysDrops);

TEST(Pipeline, ForwardDrawsOtherNumbersEachTimeAndForEachSeed) {
  const std::vector<BlockFactory> blocks(static_cast<size_t>(world().size()), block([] { return AlwaysDrops(); }));
  const torch::Tensor x = torch::ones({8, 20});
  const auto drawn = [&](uint64_t seed, int64_t replica = 0) {
    Pipeline model(world(), blocks, {.schedule = gpipe(world().size(), 2), .seed = seed});
    model.set_replica(replica);
    const torch::Tensor first = model.forward(x);
    const torch::Tensor second = model.forward(x);
    model.set_calls(3);
    const torch::Tensor later = model.forward(x);
    EXPECT_FALSE(first.equal(second));
    EXPECT_FALSE(first.equal(later));
    return std::vector<torch::Tensor>{first, second, later};
  };
  torch::manual_seed(1);
  const auto numbers = drawn(1);
  torch::rand({3});  // the global generator has no influence
  const auto same = drawn(1);
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_TRUE(numbers[i].equal(same[i])) << i;
  EXPECT_FALSE(numbers[0].equal(drawn(2)[0]));
  EXPECT_FALSE(numbers[0].equal(drawn(1, 1)[0])) << "along a data axis";
}

struct FailsImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor&) { throw std::runtime_error("this stage fails"); }
};
TORCH_MODULE(Fails);

TEST(Pipeline, AStageThatThrowsReleasesTheOthers) {
  std::vector<BlockFactory> blocks = mlp(2);
  blocks.back() = block([] { return Fails(); });
  Pipeline model(world(), blocks, {.schedule = one_forward_one_backward(world().size(), 4)});
  const auto run = [&] { model.run(torch::ones({8, 3}), torch::ones({8, 2}), squares); };
  if (world().rank() == world().size() - 1) {
    EXPECT_THROW(run(), std::runtime_error);
  } else {
    EXPECT_THROW(run(), RevokedError);
  }
}

}  // namespace pipeline_test
}  // namespace tw::pipeline
