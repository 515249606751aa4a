// SPDX-License-Identifier: Apache-2.0
// Every strategy of the trainer: resumed runs are bitwise equal to uninterrupted ones, and strategies with the arithmetic of `data` have its result.
#include "regression_run.hpp"

#include <numeric>

namespace strategy_test {

using tw::testing::bitwise_equal;
using tw::testing::copies;
using tw::testing::expect_close;
using tw::testing::make_regressor;
using tw::testing::never;
using tw::testing::options_for;
using tw::testing::Outcome;
using tw::testing::run;
using tw::testing::run_adam;
using tw::testing::squares;
using tw::testing::Way;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::Meeting;
using tw::train::ReplicaOptions;
using tw::train::Resume;
using tw::train::Sharded;

// The ways available on this device; on four ranks, those along two axes.
std::vector<Way> ways() {
  using tw::testing::along_shard;
  const tw::train::ShardOptions small{.unit_bytes = 200, .prefetch_units = 1};
  if (world().size() % 4 == 0) {
    const std::vector<tw::MeshAxis> both{{"data"}, {"shard", 2}};
    return {{.name = "shards_of_replicas", .axes = both, .shard = small},
            {.name = "optimizer_of_replicas", .axes = both, .shard = {.what = Sharded::optimizer}},
            {.name = "gradients_of_replicas", .axes = both, .shard = {.what = Sharded::gradients}},
            {.name = "local_sgd_of_shards", .axes = both, .shard = small, .replicas = {.meet = Meeting::local_sgd, .period = 4}},
            {.name = "diloco_of_shards", .axes = both, .shard = small, .replicas = {.meet = Meeting::diloco, .period = 4}},
            {.name = "local_sgd_of_groups", .replicas = {.meet = Meeting::local_sgd, .ranks_per_group = 2, .period = 4}}};
  }
  std::vector<Way> all{{.name = "every_step"},
                       {.name = "float16", .replicas = {.compression = CompressionKind::float16}},
                       {.name = "top_k", .replicas = {.compression = CompressionKind::top_k, .top_k_fraction = 0.1}},
                       {.name = "power_sgd", .replicas = {.compression = CompressionKind::power_sgd, .power_sgd_rank = 1}},
                       {.name = "optimizer", .axes = along_shard, .shard = {.what = Sharded::optimizer}},
                       {.name = "gradients", .axes = along_shard, .shard = {.what = Sharded::gradients}},
                       {.name = "parameters", .axes = along_shard, .shard = small},
                       {.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 4}},
                       {.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 4}},
                       {.name = "diloco_bfloat16", .replicas = {.meet = Meeting::diloco, .compression = CompressionKind::bfloat16, .period = 4}}};
  if (tw::testing::device().is_cpu()) {
    all.push_back({.name = "one_copy", .axes = along_shard, .shard = {.what = Sharded::optimizer, .one_copy_per_node = true}});
    all.push_back({.name = "one_copy_in_slices", .axes = along_shard, .shard = {.one_copy_per_node = true}});
  }
  if (world().size() == 1) std::erase_if(all, [](const Way& way) { return way.is_sharded(); });  // nothing is
  return all;
}

bool meets_in_every_step(const Way& way) { return way.replicas.meet == Meeting::every_step; }

TEST(Strategy, ResumedRunsHaveTheSameBits) {
  for (const Way& way : ways()) {
    const std::string& name = way.name;
    const auto whole = run_adam(options_for("whole", way), never, way.axes);
    EXPECT_TRUE(whole.summary.finished);
    for (const int64_t stop_at : {2, 7, 12}) {
      auto options = options_for("resumed_" + name, way);
      options.checkpoint.every_epochs = 1;
      options.resume = Resume::fresh;
      EXPECT_FALSE(run_adam(options, stop_at, way.axes).summary.finished) << name;
      options.resume = Resume::resume;
      const auto second = run_adam(options, never, way.axes);
      EXPECT_TRUE(second.summary.finished);
      EXPECT_EQ(second.summary.steps, 18);
      EXPECT_TRUE(bitwise_equal(second.parameters, whole.parameters)) << name << " stopped at " << stop_at;
      EXPECT_EQ(second.summary.test, whole.summary.test);
    }
  }
}

// In the middle of a period, when the ranks' parameters differ: 3 steps after the meeting at the end of an epoch of 6.
TEST(Strategy, CheckpointsHoldEachRanksOwnParameters) {
  for (const Way& way : ways()) {
    if (meets_in_every_step(way)) continue;
    auto options = options_for("whole", way);
    options.replicas.period = 5;
    const auto whole = run_adam(options, never, way.axes);
    options.name = options_for("own_" + way.name, way).name;
    options.checkpoint.every_steps = 3;
    options.checkpoint.keep = 9;
    options.resume = Resume::fresh;
    EXPECT_EQ(run_adam(options, 13, way.axes).summary.steps, 17);  // requested in step 14, received when the ranks meet
    const auto last = options.folder() / "checkpoints" / "step_00000017";
    ASSERT_TRUE(std::filesystem::exists(last));
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(last);
    world().barrier();
    options.resume = Resume::resume;
    EXPECT_TRUE(bitwise_equal(run_adam(options, never, way.axes).parameters, whole.parameters)) << way.name;  // from step 15
  }
}

// Slices, and sums in a different order: as in equivalence_test.cpp of data_parallel.
TEST(Strategy, ShardedIsData) {
  const auto data = run_adam(options_for("data", Way()));
  for (const Way& way : ways()) {
    if (way.is_sharded() && meets_in_every_step(way)) expect_close(run_adam(options_for(way.name, way), never, way.axes), data, 1e-12, way.name);
  }
}

/// Clips in a hook instead of by the option.
struct Clip : tw::train::Hook {
  void on_backward(tw::train::State& state) override {
    const double norm = state.clip_gradient_norm(0.05);
    if (norm > 0.05) ++clipped;
  }
  int clipped = 0;
};

// axes_test.cpp checks that this is the norm of one process.
TEST(Strategy, ClipsByTheNormOfTheWholeModel) {
  const auto clipped = [](const Way& way) {
    auto options = options_for("clipped_" + way.name, way);
    options.clip.norm = 0.05;
    return run_adam(options, never, way.axes);
  };
  const auto data = clipped(Way());
  for (const Way& way : ways()) {
    if (!meets_in_every_step(way)) continue;
    const std::string& name = way.name;
    const bool is_exact = way.replicas.compression == CompressionKind::none;
    if (is_exact) expect_close(clipped(way), data, 1e-12, name);
    const auto model = make_regressor(0.2);
    torch::optim::Adam optimizer(model.tensors(), torch::optim::AdamOptions(0.01));
    const auto samples = squares(31);
    tw::train::Trainer trainer(tw::Mesh(world(), way.axes), model, optimizer, tw::train::regression(), samples, samples, options_for("hook", way));
    Clip clip;
    trainer.add(clip);
    const auto summary = trainer.run();
    EXPECT_GT(clip.clipped, 9) << name;
    if (is_exact) expect_close({copies(model), {}, summary}, data, 1e-12, name + ", by a hook");
  }
}

// The mean of parameters that each made one step of plain gradient descent is one step along the mean gradient. On four ranks, of replicas in shards.
TEST(Strategy, LocalSgdOfPeriodOneIsData) {
  const auto rule = torch::optim::SGDOptions(0.1);
  const std::vector<tw::MeshAxis> axes = world().size() % 4 == 0 ? std::vector<tw::MeshAxis>{{"data"}, {"shard", 2}} : Way().axes;
  const auto train = [&](const std::string& name, const ReplicaOptions& replicas) {
    return run<torch::optim::SGD>(world(), options_for(name, replicas), rule, never, 0.2, axes);
  };
  const auto data = run<torch::optim::SGD>(world(), options_for("data", Way()), rule);
  expect_close(train("local", {.meet = Meeting::local_sgd, .period = 1}), data, 1e-12, "local_sgd");
  if (world().size() % 2 == 0) {
    const ReplicaOptions groups{.meet = Meeting::local_sgd, .ranks_per_group = 2, .period = 1};
    expect_close(run<torch::optim::SGD>(world(), options_for("local_groups", groups), rule), data, 1e-12, "local_sgd of groups");
  }
  const ReplicaOptions plain{.meet = Meeting::diloco, .period = 1, .outer_learning_rate = 1, .outer_momentum = 0};
  expect_close(train("diloco", plain), data, 1e-12, "diloco");
}

// Nothing is left to meet for.
TEST(Strategy, OneReplicaInShardsIsData) {
  const auto data = run_adam(options_for("data", Way()));
  const auto shards = run_adam(options_for("one", ReplicaOptions{.meet = Meeting::local_sgd, .period = 4}), never, tw::testing::along_shard);
  expect_close(shards, data, 1e-12, "local_sgd of one replica");
}

// One rank asks for the end, and all end after the same update.
TEST(Strategy, ARequestOfOneRankEndsTheRun) {
  for (const Way& way : ways()) {
    const auto model = make_regressor(0);
    torch::optim::Adam optimizer(model.tensors(), torch::optim::AdamOptions(0.01));
    const auto data = squares(31);
    tw::train::Trainer trainer(tw::Mesh(world(), way.axes), model, optimizer, tw::train::regression(), data, data, options_for("asked", way));
    tw::testing::Witness witness(world().rank() == world().size() - 1 ? 2 : never);
    trainer.add(witness);
    const auto summary = trainer.run();
    EXPECT_EQ(summary.stopped_because, "the test says so") << way.name;
    EXPECT_EQ(summary.steps, meets_in_every_step(way) ? 3 : 4) << way.name;
  }
}

TEST(Strategy, ARunMayChangeItsWay) {
  using tw::testing::along_shard;
  const auto whole = run_adam(options_for("data", Way()));
  const Way every_step;
  const Way optimizer{.name = "optimizer", .axes = along_shard, .shard = {.what = Sharded::optimizer}};
  const Way parameters{.name = "parameters", .axes = along_shard};
  for (const auto& [before, after] :
       std::vector<std::pair<Way, Way>>{{every_step, optimizer}, {optimizer, every_step}, {every_step, parameters}, {parameters, optimizer}}) {
    auto options = options_for("changes", before);
    options.checkpoint.every_epochs = 1;
    options.resume = Resume::fresh;
    (void)run_adam(options, 8, before.axes);
    options.shard = after.shard;
    options.resume = Resume::resume;
    expect_close(run_adam(options, never, after.axes), whole, 1e-12, "changed");
  }
}

TEST(Strategy, CountsWhatIsCommunicated) {
  const auto bytes = [](const ReplicaOptions& replicas) { return run_adam(options_for("bytes", replicas)).summary.bytes_per_step; };
  const double data = bytes({});
  EXPECT_GE(data, 8 * (4 * 16 + 16 + 16 + 1));
  EXPECT_NEAR(bytes({.meet = Meeting::local_sgd, .period = 6}), data / 6, 0.02 * data);  // an epoch has 6 steps
  EXPECT_NEAR(bytes({.compression = CompressionKind::float16}), data / 4, 0.01 * data);  // of float64
  EXPECT_LE(bytes({.compression = CompressionKind::top_k, .top_k_fraction = 0.1}), 0.2 * data);
}

// A rank with a non-finite loss informs the others when they next meet. Then the run ends and reports why.
TEST(Strategy, TroubleIsHeardWhenRanksMeet) {
  struct Poison : tw::train::Hook {
    void on_sample(tw::train::State& state) override {
      if (state.step == 1 && state.batch.size() > 0 && world().rank() == 0) state.batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN());
    }
  };
  for (const Way& way : ways()) {
    const std::string& name = way.name;
    const auto model = make_regressor(0);
    torch::optim::Adam optimizer(model.tensors(), torch::optim::AdamOptions(0.01));
    const auto data = squares(31);
    tw::train::Trainer trainer(tw::Mesh(world(), way.axes), model, optimizer, tw::train::regression(), data, data, options_for("poisoned", way));
    Poison poison;
    trainer.add(poison);
    const auto summary = trainer.run();
    EXPECT_NE(summary.stopped_because.find("rank 0: the loss is nan"), std::string::npos) << name << ": " << summary.stopped_because;
    EXPECT_LE(summary.steps, 4) << name;
    for (const at::Tensor& parameter : copies(model)) EXPECT_TRUE(parameter.isfinite().all().item<bool>()) << name;
  }
}

TEST(Strategy, RefusesWhatDoesNotGoTogether) {
  for (const ReplicaOptions& wrong :
       {ReplicaOptions{.meet = Meeting::local_sgd, .compression = CompressionKind::float16}, ReplicaOptions{.meet = Meeting::diloco, .period = 0},
        ReplicaOptions{.top_k_fraction = 2}, ReplicaOptions{.power_sgd_rank = 0}}) {
    EXPECT_THROW(tw::train::Options{.replicas = wrong}.validate(), tw::ContractError);
  }
}

// Which ranks can train so, by their numbers alone.
TEST(Strategy, RefusesWhatTheMeshDoesNotTake) {
  using tw::train::MeshSizes;
  const auto key_of = [](const tw::train::ShardOptions& shard, const ReplicaOptions& replicas, const MeshSizes& mesh) {
    const auto problems = tw::train::contradictions(shard, replicas, mesh);
    return problems.empty() ? "" : problems.front().key;
  };
  const MeshSizes data{.data = 2};
  const MeshSizes shard{.shard = 2};
  const MeshSizes both{.data = 2, .shard = 2};
  const MeshSizes parts{.data = 2, .parts = 2};
  const MeshSizes shards_of_parts{.shard = 2, .parts = 2};
  const std::vector<MeshSizes> all{data, shard, both, parts, shards_of_parts};
  for (const auto what : {Sharded::optimizer, Sharded::gradients}) {
    for (const MeshSizes& mesh : all) EXPECT_EQ(key_of({.what = what}, {}, mesh), "");
    EXPECT_EQ(key_of({.what = what}, {.meet = Meeting::local_sgd}, parts), "") << "nothing is sharded";
    EXPECT_EQ(key_of({.what = what}, {.meet = Meeting::local_sgd}, shard), "shard.what");
  }
  for (const MeshSizes& mesh : all) {
    for (const auto meet : {Meeting::every_step, Meeting::local_sgd, Meeting::diloco, Meeting::parameter_server}) {
      EXPECT_EQ(key_of({}, {.meet = meet}, mesh), "");
    }
  }
  EXPECT_EQ(key_of({}, {.meet = Meeting::diloco, .ranks_per_group = 2}, data), "");
  EXPECT_EQ(key_of({}, {.meet = Meeting::diloco, .ranks_per_group = 3}, data), "replicas.ranks_per_group");
  EXPECT_EQ(key_of({}, {.meet = Meeting::diloco, .ranks_per_group = 2}, shard), "replicas.ranks_per_group");
  EXPECT_EQ(key_of({}, {.ranks_per_group = 3}, data), "") << "there are no groups";
  EXPECT_EQ(key_of({}, {.compression = CompressionKind::float16}, parts), "");
  EXPECT_EQ(key_of({}, {.compression = CompressionKind::top_k}, parts), "replicas.compression");
  EXPECT_EQ(key_of({}, {.compression = CompressionKind::float16}, shard), "replicas.compression");
  EXPECT_EQ(key_of({}, {.meet = Meeting::diloco, .compression = CompressionKind::float16}, both), "");
}

}  // namespace strategy_test
