// SPDX-License-Identifier: Apache-2.0
// Checkpoints of sharded tensors: consistent while others push, and valid for any number of servers.
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>

#include "mpi_test.hpp"

namespace tw::parameter_server {
namespace sharded_state_test {

using tw::testing::world;

TEST(ShardedState, IsNoShardHalfPushed) {
  constexpr int64_t numel = 100000;  // several chunks on each server
  ShardedTensor centre(world(), torch::zeros({numel}), {.rules = {rules::momentum({.lr = 1, .momentum = 0.5})}});
  const at::Tensor ones = torch::ones({numel});
  for (int i = 0; i < 50; ++i) {
    centre.push(ones);
    if (i % 5 != world().rank()) continue;
    for (const NamedShard& shard : centre.shards("centre")) {
      if (shard.name == "centre.updates") continue;
      EXPECT_TRUE(shard.tensor.eq(shard.tensor.flatten()[0]).all().item<bool>()) << shard.name;  // every push treats all elements the same
    }
  }
  centre.finish();
}

/// A push of several pieces, some of which have arrived: the checkpoint waits for the rest.
TEST(ShardedState, HoldsNoPieceOfAPush) {
  const int64_t numel = 700000 * world().size();  // 2.7 MiB on each server
  ShardedTensor centre(world(), torch::zeros({numel}), {.share_memory = false});
  const at::Tensor ones = torch::ones({numel});
  for (int i = 0; i < 6; ++i) {
    auto pushed = centre.push(ones);
    for (bool over = false; !over;) {
      over = pushed.test();
      const std::vector<NamedShard> now = centre.shards("centre");
      const at::Tensor values = now.front().tensor;
      EXPECT_TRUE(values.eq(values[0]).all().item<bool>());
      EXPECT_EQ(now.back().tensor[0].item<double>(), values[0].item<double>()) << "updates";
    }
  }
  centre.finish();
}

TEST(ShardedState, OfHalvesIsInFloat32) {
  const at::Tensor start = torch::linspace(-1, 1, 30, at::kHalf);
  ShardedTensor centre(world(), start, {.rules = {rules::adam({.lr = 0.1})}});
  for (int i = 0; i < 3; ++i) centre.push(torch::full({30}, 1e-5, at::kHalf)).wait();
  centre.finish();
  const std::vector<NamedShard> kept = centre.shards("centre");
  for (const NamedShard& each : kept) {
    if (each.kind == ShardKind::optimizer) {
      EXPECT_EQ(each.tensor.scalar_type(), at::kFloat) << each.name;
      EXPECT_GT(each.tensor.min().item<double>(), 0) << each.name;
    }
  }
  ShardedTensor other(world(), start, {.rules = {rules::adam({.lr = 0.1})}});
  other.restore(kept);
  const std::vector<NamedShard> again = other.shards("centre");
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(again[i].tensor.equal(kept[i].tensor)) << kept[i].name;
  barrier(world());
}

TEST(ShardedState, ContinuesOnOtherServers) {
  const at::Tensor start = torch::linspace(-1, 1, 21, at::kDouble).view({3, 7});
  const ShardedTensorOptions with_adam{.rules = {rules::adam({.lr = 0.1})}};
  ShardedTensor before(world(), start, with_adam);
  ShardedTensor uninterrupted(world(), start, with_adam);
  const auto push_to = [&](ShardedTensor& centre, int step) {
    if (world().rank() == 0) centre.push(torch::cos(start * step)).wait();
    barrier(world());
  };
  for (int step = 1; step <= 3; ++step) {
    push_to(before, step);
    push_to(uninterrupted, step);
  }
  // Moves everything to the last rank as the only server, as a checkpoint does: whole tensors from all slices, then slices of them.
  std::map<std::string, at::Tensor> global;
  for (const NamedShard& shard : before.shards("centre")) {
    at::Tensor& all = global[shard.name];
    if (!all.defined()) all = torch::zeros(shard.global_shape, shard.tensor.options());
    at::Tensor place = all;
    for (size_t d = 0; d < shard.offsets.size(); ++d)
      place = place.narrow(static_cast<int64_t>(d), shard.offsets[d], shard.tensor.size(static_cast<int64_t>(d)));
    place.copy_(shard.tensor);
  }
  for (auto& [name, tensor] : global) allreduce(world(), tensor, name == "centre.updates" ? ReduceOp::average : ReduceOp::sum);
  ShardedTensorOptions elsewhere = with_adam;
  elsewhere.servers = {world().size() - 1};
  ShardedTensor after(world(), torch::zeros({3, 7}, at::kDouble), elsewhere);
  std::vector<NamedShard> loaded = after.shards("centre");
  for (NamedShard& shard : loaded) {
    at::Tensor place = global.at(shard.name);
    for (size_t d = 0; d < shard.offsets.size(); ++d)
      place = place.narrow(static_cast<int64_t>(d), shard.offsets[d], shard.tensor.size(static_cast<int64_t>(d)));
    shard.tensor.copy_(place);
  }
  if (!loaded.empty()) after.restore(loaded);
  barrier(world());
  for (int step = 4; step <= 6; ++step) {
    push_to(after, step);
    push_to(uninterrupted, step);
  }
  EXPECT_TRUE(after.prefetch().take().equal(uninterrupted.prefetch().take()));
  for (ShardedTensor* each : {&before, &uninterrupted, &after}) each->finish();
}

}  // namespace sharded_state_test
}  // namespace tw::parameter_server
