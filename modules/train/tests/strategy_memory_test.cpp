// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tw/train/strategy_memory.hpp>

namespace strategy_memory_test {

using tw::MemoryUse;
using tw::train::Meeting;
using tw::train::MeshSizes;
using tw::train::ModelMemory;
using tw::train::ReplicaOptions;
using tw::train::ServerAlgorithm;
using tw::train::Sharded;
using tw::train::ShardOptions;
using tw::train::strategy_memory;
using tw::train::StrategyMemory;

constexpr int ranks = 8;
constexpr int64_t mib = int64_t{1} << 20;
constexpr int64_t n = 96 * mib;

// 24 layers of 4 MiB, trained by Adam.
ModelMemory model() {
  ModelMemory model{.buffer_bytes = mib, .state_tensors = 2, .temporary_tensors = 2};
  for (int layer = 0; layer < 24; ++layer) model.trained.push_back({"layer " + std::to_string(layer), {1024, 1024}, c10::ScalarType::Float});
  return model;
}

StrategyMemory of_replicas(const ReplicaOptions& replicas, int data = ranks) { return strategy_memory({}, replicas, {.data = data}, model()); }
StrategyMemory of_shards(const ShardOptions& shard, const ModelMemory& of = model()) { return strategy_memory(shard, {}, {.shard = ranks}, of); }

// In bytes of all parameters, of which buffers have 1/96 anyway.
void expect_kept(const StrategyMemory& memory, double parameters, double gradients, double optimizer, double buffers) {
  const std::array expected{parameters, gradients, optimizer, buffers + 1.0 / 96, 0.0};
  for (size_t use = 0; use < expected.size(); ++use) {
    EXPECT_NEAR(static_cast<double>(memory.kept.bytes[use]) / n, expected[use], 1e-9) << name_of(static_cast<MemoryUse>(use));
  }
}

TEST(StrategyMemory, IsKeptAsTheOptionsSay) {
  const double share = 1.0 / ranks;
  const double bucket = 24.0 / 96;  // of 25 MiB at most, with whole layers
  expect_kept(of_replicas({}), 1, 1, 2, 0);
  expect_kept(of_replicas({.compression = tw::train::CompressionKind::top_k}), 1, 1, 2, 1);
  expect_kept(of_shards({.what = Sharded::optimizer}), 1, 1, 2 * share, 0);
  expect_kept(of_shards({.what = Sharded::gradients}), 1, share, 2 * share, bucket);
  expect_kept(of_shards({.what = Sharded::optimizer, .one_copy_per_node = true}), share, 1, 2 * share, 0);
  expect_kept(of_shards({.unit_bytes = 8 * mib}), share, share, 2 * share, 3 * 8.0 / 96);
  expect_kept(of_shards({.unit_bytes = 8 * mib, .prefetch_units = 2}), share, share, 2 * share, 4 * 8.0 / 96);
  expect_kept(of_shards({.one_copy_per_node = true, .unit_bytes = 8 * mib}), share, share, 2 * share, 8.0 / 96);
  expect_kept(of_replicas({.meet = Meeting::local_sgd}), 1, 1, 2, 1 + 1.0 / 96);  // the model's buffers are averaged too
  expect_kept(of_replicas({.meet = Meeting::diloco}), 1, 1, 4, 1);
  expect_kept(of_replicas({.meet = Meeting::diloco, .compression = tw::train::CompressionKind::bfloat16, .outer_momentum = 0}), 1, 1, 3, 0.5);
  expect_kept(of_replicas({.meet = Meeting::parameter_server}), 1, 1, 2, share);
  expect_kept(of_replicas({.meet = Meeting::parameter_server, .algorithm = ServerAlgorithm::downpour}), 1, 1, 2, 1 + share);
  expect_kept(of_replicas({.meet = Meeting::parameter_server, .ranks_per_group = 4}), 1, 1, 2, 4 * share);  // on a group's first rank
}

// Replicas of which four ranks each keep a part.
TEST(StrategyMemory, ShardsMayHaveReplicas) {
  const MeshSizes mesh{.data = 2, .shard = 4};
  const ShardOptions shard{.unit_bytes = 8 * mib};
  expect_kept(strategy_memory(shard, {}, mesh, model()), 0.25, 0.25, 0.5, 3 * 8.0 / 96);
  EXPECT_EQ(strategy_memory(shard, {}, mesh, model()).checkpoint, 3 * n / 8) << "replicas share it out";
  expect_kept(strategy_memory(shard, {.meet = Meeting::diloco}, mesh, model()), 0.25, 0.25, 0.5 + 0.5, 3 * 8.0 / 96 + 0.25);
  expect_kept(strategy_memory(shard, {.meet = Meeting::local_sgd}, mesh, model()), 0.25, 0.25, 0.5, 3 * 8.0 / 96 + 0.25 + 1.0 / 96);
  expect_kept(strategy_memory(shard, {.meet = Meeting::parameter_server}, mesh, model()), 0.25, 0.25, 0.5, 3 * 8.0 / 96 + 0.25 / 2);
  const StrategyMemory updates = strategy_memory({.what = Sharded::optimizer}, {}, mesh, model());
  expect_kept(updates, 1, 1, 2.0 / ranks, 0);
  EXPECT_EQ(updates.checkpoint, of_shards({.what = Sharded::optimizer}).checkpoint) << "of all ranks with other samples";
}

TEST(StrategyMemory, FrozenParametersAreNotTrained) {
  ModelMemory frozen = model();
  frozen.frozen_bytes = n;
  const auto kept = of_shards({}, frozen).kept;
  EXPECT_EQ(kept[MemoryUse::parameters], 2 * n / ranks);
  EXPECT_EQ(kept[MemoryUse::gradients], n / ranks);
}

TEST(StrategyMemory, TheRestComesAndGoes) {
  EXPECT_EQ(of_replicas({}).update, 8 * mib);
  EXPECT_EQ(of_replicas({.meet = Meeting::parameter_server}).update, 3 * n);
  EXPECT_EQ(of_replicas({.compression = tw::train::CompressionKind::float16}).update, n / 2);
  EXPECT_EQ(of_replicas({}).backward, 0);
  EXPECT_EQ(of_shards({.unit_bytes = 8 * mib}).backward, 16 * mib);
  EXPECT_EQ(of_replicas({}).checkpoint, 3 * n / ranks);
  EXPECT_EQ(of_replicas({.meet = Meeting::local_sgd}).checkpoint, 3 * n);
  EXPECT_EQ(of_replicas({.compression = tw::train::CompressionKind::top_k}).checkpoint, 3 * n / ranks + n) << "residuals, each rank's";
  EXPECT_EQ(of_replicas({}, 1000).checkpoint, 2 * mib) << "the least";
  EXPECT_EQ(of_replicas({}).best_model, n / ranks) << "without the optimizer's state";
  EXPECT_EQ(of_replicas({.meet = Meeting::local_sgd}).best_model, n / ranks) << "replicas have met";
  EXPECT_EQ(of_shards({}).best_model, n / ranks);
  EXPECT_EQ(of_replicas({}, 1000).best_model, 2 * mib) << "the least";
  EXPECT_EQ(of_shards({}).exported, 4 * mib) << "one tensor at a time";
  EXPECT_TRUE(of_shards({.what = Sharded::optimizer}).gradients_are_kept);
  EXPECT_FALSE(of_replicas({.meet = Meeting::diloco}).gradients_are_kept);
  EXPECT_TRUE(of_replicas({.meet = Meeting::diloco, .ranks_per_group = 2}).gradients_are_kept);
}

}  // namespace strategy_memory_test
