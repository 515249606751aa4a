// SPDX-License-Identifier: Apache-2.0
// Models in parts whose ranks also divide parameters, gradients or optimizer state.
#include "models_in_parts.hpp"

#include <tw/mpi/topology.hpp>

namespace sharded_parts_test {

using namespace tw::testing::parts;
using tw::testing::three_epochs;
using tw::testing::world;

// Each rank keeps its share of its stage, or of its slices; also a checkpoint of it, on another mesh.
TEST(ShardedParts, AreOneProcess) {
  const auto sharded = [](const std::string& name, int64_t accumulation) {
    Options options = clipped(name);
    options.shard.unit_bytes = 200;
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    options.accumulation = accumulation;
    return options;
  };
  for (const int64_t accumulation : {1, 2}) {
    Options alone_options = clipped("shards_alone");
    alone_options.accumulation = accumulation;
    const auto expected = train(alone(), model_of(whole_net()), alone_options).summary;
    for (const auto& [replicas, stages, split] :
         {std::tuple(1, 2, 1), std::tuple(1, 1, 2), std::tuple(1, 2, 2), std::tuple(2, 2, 1), std::tuple(2, 1, 2)}) {
      if (world().size() % (replicas * stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data", replicas}, {"shard"}, {"tensor", split}, {"stage", stages}});
      const auto ran = train(mesh, model_of(split_model(split_pipeline(mesh))), sharded("shards", accumulation));
      expect_equal(ran.summary, expected, mesh.shape().describe());
      if (world().rank() == 0) {
        const tw::SafetensorsFile best(ran.options.folder() / "best.safetensors");
        EXPECT_EQ(best.names().size(), 6U) << mesh.shape().describe();
        EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8})) << mesh.shape().describe();
      }
    }
  }
  if (world().size() % 2 != 0) return;
  const auto expected = train(alone(), model_of(whole_net()), clipped("shards_alone")).summary;
  Options options = sharded("shards_again", 1);
  for (const int stages : {2, 1}) {
    const Mesh mesh(world(), {{"shard"}, {"tensor", 1}, {"stage", stages}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

// The same, where ranks divide the optimizer's state and perhaps gradients, but not the parameters.
TEST(ShardedParts, WithShardedOptimizersAreOneProcess) {
  using tw::train::Sharded;
  const auto expected = train(alone(), model_of(whole_net()), clipped("updates_alone")).summary;
  const bool on_one_node = tw::find_topology(world()).nodes == 1;
  const auto options_of = [on_one_node](Sharded what) {
    Options options = clipped("updates");
    options.shard.what = what;
    options.shard.one_copy_per_node = what == Sharded::gradients && on_one_node;
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    return options;
  };
  for (const auto& [what, replicas, stages, split] :
       {std::tuple(Sharded::optimizer, 1, 1, 1), std::tuple(Sharded::optimizer, 1, 2, 1), std::tuple(Sharded::gradients, 1, 1, 2),
        std::tuple(Sharded::gradients, 2, 2, 1), std::tuple(Sharded::optimizer, 2, 1, 2)}) {
    if (world().size() % (replicas * stages * split) != 0) continue;
    const Mesh mesh(world(), {{"data", replicas}, {"shard"}, {"tensor", split}, {"stage", stages}});
    expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options_of(what)).summary, expected, mesh.shape().describe());
  }
  if (world().size() % 2 != 0) return;
  Options options = options_of(Sharded::optimizer);  // begun in stages, and ended in slices
  for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world(), {{"shard"}, {"tensor", split}, {"stage", stages}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

}  // namespace sharded_parts_test
