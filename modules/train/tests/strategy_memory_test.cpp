// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/train/strategy_memory.hpp>

namespace strategy_memory_test {

using tw::train::MemoryUse;
using tw::train::ModelMemory;
using tw::train::ServerAlgorithm;
using tw::train::strategy_memory;
using tw::train::StrategyKind;
using tw::train::StrategyOptions;

constexpr int ranks = 8;
constexpr int64_t mib = int64_t{1} << 20;
constexpr int64_t n = 96 * mib;

// 24 layers of 4 MiB, trained by Adam.
ModelMemory model() {
  ModelMemory model{.buffer_bytes = mib, .state_tensors = 2, .passing_tensors = 2};
  for (int layer = 0; layer < 24; ++layer) model.trained.push_back({"layer " + std::to_string(layer), {1024, 1024}, c10::ScalarType::Float});
  return model;
}

// In bytes of all parameters, of which buffers have 1/96 anyway.
void expect_kept(const StrategyOptions& strategy, double parameters, double gradients, double optimizer, double buffers) {
  const auto kept = strategy_memory(strategy, ranks, model()).kept;
  const std::array expected{parameters, gradients, optimizer, buffers + 1.0 / 96, 0.0};
  for (size_t use = 0; use < expected.size(); ++use) {
    EXPECT_NEAR(static_cast<double>(kept.bytes[use]) / n, expected[use], 1e-9)
        << static_cast<int>(strategy.kind) << name_of(static_cast<MemoryUse>(use));
  }
}

TEST(StrategyMemory, IsKeptAsTheStrategySays) {
  const double share = 1.0 / ranks;
  const double bucket = 24.0 / 96;  // of 25 MiB at most, with whole layers
  expect_kept({}, 1, 1, 2, 0);
  expect_kept({.compression = tw::train::CompressionKind::top_k}, 1, 1, 2, 1);
  expect_kept({.kind = StrategyKind::sharded}, 1, 1, 2 * share, 0);
  expect_kept({.kind = StrategyKind::sharded, .release_gradients = true}, 1, share, 2 * share, bucket);
  expect_kept({.kind = StrategyKind::sharded, .one_copy_per_node = true}, share, 1, 2 * share, 0);
  expect_kept({.kind = StrategyKind::fully_sharded, .unit_bytes = 8 * mib}, share, share, 2 * share, 3 * 8.0 / 96);
  expect_kept({.kind = StrategyKind::fully_sharded, .unit_bytes = 8 * mib, .prefetch_units = 2}, share, share, 2 * share, 4 * 8.0 / 96);
  expect_kept({.kind = StrategyKind::fully_sharded, .one_copy_per_node = true, .unit_bytes = 8 * mib}, share, share, 2 * share, 8.0 / 96);
  expect_kept({.kind = StrategyKind::local_sgd}, 1, 1, 2, 1 + 1.0 / 96);  // the model's buffers are averaged too
  expect_kept({.kind = StrategyKind::diloco}, 1, 1, 4, 1);
  expect_kept({.kind = StrategyKind::diloco, .compression = tw::train::CompressionKind::bfloat16, .outer_momentum = 0}, 1, 1, 3, 0.5);
  expect_kept({.kind = StrategyKind::parameter_server}, 1, 1, 2, share);
  expect_kept({.kind = StrategyKind::parameter_server, .algorithm = ServerAlgorithm::downpour}, 1, 1, 2, 1 + share);
}

TEST(StrategyMemory, FrozenParametersAreNotTrained) {
  ModelMemory frozen = model();
  frozen.frozen_bytes = n;
  const auto kept = strategy_memory({.kind = StrategyKind::fully_sharded}, ranks, frozen).kept;
  EXPECT_EQ(kept[MemoryUse::parameters], 2 * n / ranks);
  EXPECT_EQ(kept[MemoryUse::gradients], n / ranks);
}

TEST(StrategyMemory, TheRestComesAndGoes) {
  EXPECT_EQ(strategy_memory({}, ranks, model()).update, 8 * mib);
  EXPECT_EQ(strategy_memory({.kind = StrategyKind::parameter_server}, ranks, model()).update, 3 * n);
  EXPECT_EQ(strategy_memory({.compression = tw::train::CompressionKind::float16}, ranks, model()).update, n / 2);
  EXPECT_EQ(strategy_memory({}, ranks, model()).backward, 0);
  EXPECT_EQ(strategy_memory({.kind = StrategyKind::fully_sharded, .unit_bytes = 8 * mib}, ranks, model()).backward, 16 * mib);
  EXPECT_EQ(strategy_memory({}, ranks, model()).checkpoint, 3 * n / ranks);
  EXPECT_EQ(strategy_memory({.kind = StrategyKind::local_sgd}, ranks, model()).checkpoint, 3 * n);
  EXPECT_EQ(strategy_memory({.compression = tw::train::CompressionKind::top_k}, ranks, model()).checkpoint, 3 * n / ranks + n)
      << "residuals, each rank's";
  EXPECT_EQ(strategy_memory({}, 1000, model()).checkpoint, 2 * mib) << "the least";
  EXPECT_EQ(strategy_memory({.kind = StrategyKind::fully_sharded}, ranks, model()).gathered, n) << "on rank 0";
  EXPECT_EQ(strategy_memory({.kind = StrategyKind::sharded}, ranks, model()).gathered, 0);
  EXPECT_TRUE(strategy_memory({.kind = StrategyKind::sharded}, ranks, model()).gradients_are_kept);
  EXPECT_FALSE(strategy_memory({.kind = StrategyKind::diloco}, ranks, model()).gradients_are_kept);
}

}  // namespace strategy_memory_test
