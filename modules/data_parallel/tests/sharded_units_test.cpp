// SPDX-License-Identifier: Apache-2.0
// The units of a fully sharded model, when they are gathered, and the memory needed in addition.
#include <set>
#include <tw/tensor/held_memory.hpp>

#include "message_of.hpp"
#include "sharded_training.hpp"

namespace sharded_units_test {

using namespace tw::testing::sharded;
using tw::testing::message_of;
using tw::testing::world;

// The forward and backward pass of four units, in order: the last unit of the former is the first of the latter.
TEST(ShardedUnits, GathersEachUnitTwiceAStepAndAheadOncePassesAreKnown) {
  for (const int ahead : {0, 1, 2}) {
    torch::nn::Sequential net;
    for (int i = 0; i < 4; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
    net->to(torch::kDouble);
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .prefetch_units = ahead});
    for (int step = 0; step < 3; ++step) {
      const int64_t before = sharded.gatherings();
      const int64_t late = sharded.blocking_gathers();
      net->forward(my_samples(step)).sum().backward();
      // The backward pass does not use the first layer's weights, since the input needs no gradient. The last but one stays gathered for it, and with
      // enough prefetching the second one, too.
      const bool known = step > 0;
      const int64_t gathered = known && ahead == 2 ? 4 : 5;
      EXPECT_EQ(sharded.gatherings() - before, gathered) << ahead << ' ' << step;
      EXPECT_EQ(sharded.blocking_gathers() - late, known && ahead > 0 ? 1 : gathered) << ahead << ' ' << step;
    }
  }
}

// An evaluation follows the order of the last training pass and leaves it unchanged, even with gradients enabled.
TEST(ShardedUnits, GathersAheadInAndAfterEvaluations) {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
  net->to(torch::kDouble);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .prefetch_units = 1});
  const auto late_of = [&](bool trains, bool with_gradients) {
    const torch::AutoGradMode mode(with_gradients);
    const int64_t late = sharded.blocking_gathers();
    const at::Tensor sum = net->forward(my_samples(0)).sum();
    if (trains) sum.backward();
    return sharded.blocking_gathers() - late;
  };
  const auto train = [&] { return late_of(true, true); };
  train();
  EXPECT_EQ(train(), 1);
  for (const bool with_gradients : {false, true}) {
    for (int pass = 0; pass < 3; ++pass) EXPECT_LE(late_of(false, with_gradients), 2) << pass;
    EXPECT_LE(train(), 2) << with_gradients;
    for (int step = 0; step < 3; ++step) EXPECT_EQ(train(), 1) << with_gradients << ' ' << step;
  }
}

// accept_leaks checks the process over 100,000 passes.
TEST(ShardedUnits, EvaluationsLeaveNothingBehind) {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
  net->to(torch::kDouble);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .prefetch_units = 1});
  net->forward(my_samples(0)).sum().backward();
  const tw::HeldMemory held;
  for (const bool with_gradients : {false, true}) {
    const torch::AutoGradMode mode(with_gradients);
    int64_t before = 0;
    for (int pass = 0; pass < 300; ++pass) {
      if (pass == 10) before = held.now();
      (void)net->forward(my_samples(0));
    }
    EXPECT_EQ(held.now(), before) << with_gradients;
  }
}

TEST(ShardedUnits, MakesUnitsOfSubmodules) {
  auto net = layers();
  net->to(torch::kDouble);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .units = {"3", "0"}});
  std::vector<std::vector<std::string>> units;
  for (const tw::Bucket& bucket : sharded.parallel().plan().buckets) {
    auto& names = units.emplace_back();
    for (const int64_t id : bucket.gradients) names.push_back(sharded.parallel().parameters()[static_cast<size_t>(id)].name);
  }
  const std::vector<std::vector<std::string>> expected{{"3.bias", "3.weight"}, {"0.bias", "0.weight"}, {"5.bias", "5.weight", "1.bias", "1.weight"}};
  EXPECT_EQ(std::set(units.begin(), units.end()), std::set(expected.begin(), expected.end()));
  net->forward(my_samples(0)).sum().backward();
  const auto again = layers();
  const std::string error = message_of([&] { tw::FullySharded(world(), *again, {.reduction = tw::Reduction::mean, .units = {"0", "7"}}); });
  EXPECT_NE(error.find("there is no submodule 7"), std::string::npos) << error;
}

// If all ranks read their slices, nothing is gathered again. A rank that reads alone must not wait for others.
TEST(ShardedUnits, SlicesMayBeReadOnOneRank) {
  ShardedNet f;
  f.loss().backward();
  f.optimizer.step();
  const at::NoGradGuard no_grad;
  f.loss();
  const int64_t before = f.sharded.gatherings();
  if (world().rank() == 0) {
    for (const at::Tensor& slice : f.sharded.slices()) slice.norm();
  }
  f.loss();
  EXPECT_LE(f.sharded.gatherings() - before, 8);
}

TEST(ShardedUnits, GoesOnAfterAnExceptionInAPass) {
  ShardedNet f;
  const auto reference = plain().make();
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int64_t step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    plain().loss(*reference, all_samples(step), step).backward();
    optimizer.step();
    f.optimizer.zero_grad();
    EXPECT_THROW(plain().loss(*f.net, torch::ones({2, 9}, torch::kDouble), step), c10::Error);
    EXPECT_THROW(dynamic_cast<torch::nn::SequentialImpl&>(*f.net)[3]->as<torch::nn::Linear>()->forward(torch::ones({2, 9}, torch::kDouble)),
                 c10::Error);
    f.loss(step).backward();
    f.optimizer.step();
  }
  expect_equal(*f.net, *reference, "after exceptions");
}

TEST(ShardedUnits, LeavesBuffersWhole) {
  torch::nn::Sequential net(torch::nn::Linear(8, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 2));
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  net->forward(my_samples(0).to(torch::kFloat)).sum().backward();
  EXPECT_NE(net->named_buffers()["1.running_mean"].data_ptr(), nullptr);
  for (const tw::NamedShard& shard : sharded.shards())
    EXPECT_NE(shard.name.find("weight") == std::string::npos, shard.name.find("bias") == std::string::npos);
}

}  // namespace sharded_units_test
