// SPDX-License-Identifier: Apache-2.0
// Models along other axes, and along several: the trainer's numbers equal those of one process. The trainer's sources do not mention these axes.
#include "models_in_parts.hpp"

namespace axes_test {

using namespace tw::testing::parts;
using tw::testing::three_epochs;
using tw::testing::world;

TEST(Axes, DataTimesTensorIsOneProcess) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("tensor_alone")).summary;
  for (const int ranks : {1, 2, 4}) {
    if (world().size() % ranks != 0) continue;
    const Mesh mesh(world(), {{"data"}, {"tensor", ranks}});
    Options options = three_epochs("tensor");
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    const auto net = split_net(mesh["tensor"]);
    expect_equal(train(mesh, model_of(split_model(net)), options).summary, expected, tw::concat(ranks, " ranks"));
    if (world().rank() != 0) continue;
    const tw::SafetensorsFile best(options.folder() / "best.safetensors");
    EXPECT_EQ(best.names().size(), 6U);
    EXPECT_EQ(best.tensor("0.weight").sizes(), (std::vector<int64_t>{8, 4})) << "put together from slices";
    EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8}));
  }
}

TEST(Axes, ClipByOneNorm) {
  const auto expected = train(alone(), model_of(whole_net()), clipped("clipped_alone")).summary;
  EXPECT_NE(expected.test[0].second, train(alone(), model_of(whole_net()), three_epochs("tensor_alone")).summary.test[0].second);
  for (const int stages : {1, 2}) {
    for (const int split : {1, 2}) {
      if (world().size() % (stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const auto net = split_pipeline(mesh);
      expect_equal(train(mesh, model_of(split_model(net)), clipped("clipped")).summary, expected, mesh.shape().describe());
    }
  }
}

struct ClipsByHand : tw::train::Hook {
  explicit ClipsByHand(std::vector<at::Tensor> of) : parameters(std::move(of)) {}
  void on_backward(tw::train::State& /*state*/) override { torch::nn::utils::clip_grad_norm_(parameters, 0.1); }
  std::vector<at::Tensor> parameters;
};

// With other ranks' parts it would be another factor on each rank.
TEST(Axes, RefuseToClipByARanksNorm) {
  if (world().size() % 2 != 0) return;
  for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world().split(0, world().rank()), {{"data"}, {"tensor", split}, {"stage", stages}});  // its own, since a failed run revokes it
    const Model model = model_of(split_model(split_pipeline(mesh)));
    torch::optim::SGD sgd(model.tensors(), 0.05);
    const auto data = tw::testing::squares(31);
    Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, three_epochs("by_hand"));
    ClipsByHand hook(model.tensors());
    trainer.add(hook);
    const std::string error = tw::testing::message_of([&] { (void)trainer.run(); });
    EXPECT_NE(error.find("clip by State::clip_gradient_norm() in a hook"), std::string::npos) << mesh.shape().describe() << ": " << error;
  }
}

// Some samples do not count, so that parts of an update have other weights than rows, and some none.
TEST(Axes, WeighALossByWhatCounts) {
  const auto counts = [](const at::Tensor& t) { return t.gt(1.3).to(torch::kDouble); };
  const tw::train::Objective objective{
      .loss = [counts](const at::Tensor& y, const at::Tensor& t) { return ((y - t).square() * counts(t)).sum() / counts(t).sum(); },
      .weight = [counts](const at::Tensor& t) { return counts(t).sum().item<double>(); }};
  const auto expected = train(alone(), model_of(whole_net()), clipped("weighed_alone"), objective).summary;
  for (const int shards : {1, 2}) {
    for (const int stages : {1, 2}) {
      for (const int split : {1, 2}) {
        if (world().size() % (shards * stages * split) != 0) continue;
        const Mesh mesh(world(), {{"data"}, {"shard", shards}, {"tensor", split}, {"stage", stages}});
        expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), clipped("weighed"), objective).summary, expected,
                     mesh.shape().describe());
      }
    }
  }
}

// Where gradients meet along `data`, whoever holds the model together.
TW_TEST_ON(Axes, GradientsOfPartsTravelInHalfPrecision, {.least = 4}) {
  for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
    Options options = three_epochs("halves");
    const auto plain = train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary;
    options.replicas.compression = tw::train::CompressionKind::float16;
    const auto halves = train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary;
    EXPECT_NE(halves.test[0].second, plain.test[0].second);
    EXPECT_NEAR(halves.test[0].second, plain.test[0].second, 0.01 * plain.test[0].second);
    EXPECT_NEAR(halves.bytes_per_step, plain.bytes_per_step / 4, 0.02 * plain.bytes_per_step) << "of float64";
  }
}

/// Multiplies by almost 1, and by another number on each rank, as if these rounded otherwise.
struct RoundedImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x * (1 + 1e-3 * world().rank()); }
};
TORCH_MODULE(Rounded);

/// Trains a net with a dropout on split layers. @param where what it drops: "slices", "slices apart" by a SplitDropout, "whole" tensors, or "rounded"
/// ones, which are whole but differ a little @return what is thrown
std::string message_of_dropout(const std::string& where, int replicas, int ranks, tw::ComputeType compute, int64_t global_batch = 6) {
  const Mesh mesh(world().split(0, world().rank()), {{"data", replicas}, {"tensor", ranks}});  // its own, since a failed run revokes it
  torch::manual_seed(6);
  torch::nn::Sequential net(ColumnParallelLinear(mesh["tensor"], 4, 12));
  if (where == "slices") net->push_back(torch::nn::Dropout(0.5));
  if (where == "slices apart") net->push_back(SplitDropout(mesh["tensor"], 0.5));
  net->push_back(RowParallelLinear(mesh["tensor"], 12, 6));
  if (where == "rounded") net->push_back(Rounded());
  if (where == "whole" || where == "rounded") net->push_back(torch::nn::Dropout(0.5));
  net->push_back(torch::nn::Linear(6, 1));
  const auto dtype = compute == tw::ComputeType::float32 ? torch::kDouble : torch::kFloat;
  net->to(dtype);
  const auto doubles = tw::testing::squares(31);
  const tw::Batch all = doubles.batch(std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const tw::TensorDataset data(all.inputs.to(dtype), all.targets.to(dtype));
  Options options = three_epochs("one_mask");
  options.epochs = 1;
  options.global_batch = global_batch;
  options.accumulation = 1;
  options.precision.compute = compute;
  return tw::testing::message_of([&] {
    const Model model = model_of(split_model(net));
    torch::optim::SGD sgd(model.tensors(), 0.05);
    Trainer(mesh, model, sgd, tw::train::regression(), data, data, options).run();
  });
}

constexpr const char* one_mask = "draws the same random numbers for different slices";

// A plain dropout on slices drops the same features of each; the first update finds that.
TEST(Axes, RefuseOneMaskForAllSlices) {
  using tw::ComputeType;
  struct Case {
    const char* where;
    ComputeType compute;
    bool is_refused;
  };
  const std::vector<Case> cases{{"slices", ComputeType::float32, true},  {"slices apart", ComputeType::float32, false},
                                {"whole", ComputeType::float32, false},  {"rounded", ComputeType::float32, true},
                                {"slices", ComputeType::bfloat16, true}, {"rounded", ComputeType::bfloat16, false},
                                {"slices", ComputeType::float16, true},  {"rounded", ComputeType::float16, false}};
  for (const int ranks : {1, 2, 3, 4}) {
    if (world().size() % ranks != 0 || 12 % ranks != 0) continue;
    for (const auto& [where, compute, is_refused] : cases) {
      const std::string message = message_of_dropout(where, world().size() / ranks, ranks, compute);
      if (is_refused && ranks > 1) {
        EXPECT_NE(message.find(one_mask), std::string::npos) << where << ' ' << ranks << ": " << message;
      } else {
        EXPECT_EQ(message, "nothing thrown") << where << ' ' << ranks;
      }
    }
  }
}

// One replica has all rows; the other makes no pass, and does not wait for it.
TW_TEST_ON(Axes, CompareMasksOfReplicasThatHaveRows, {.least = 4}) {
  EXPECT_EQ(message_of_dropout("slices apart", 2, 2, tw::ComputeType::float32, 1), "nothing thrown");
  EXPECT_NE(message_of_dropout("slices", 2, 2, tw::ComputeType::float32, 1).find(one_mask), std::string::npos);
}

// A stage that has slices, though none of its layers is split.
TW_TEST_ON(Axes, RefuseOneMaskInAStageWithoutSplitLayers, {.least = 4}) {
  using namespace tw::pipeline;
  for (const bool drops : {false, true}) {
    const Mesh mesh(world().split(0, world().rank()), {{"data"}, {"tensor", 2}, {"stage", 2}});
    const tw::Communicator& axis = mesh["tensor"];
    const std::vector<BlockFactory> blocks{block([&] { return ColumnParallelLinear(axis, 4, 12); }), block([] { return torch::nn::Tanh(); }),
                                           block([&] { return torch::nn::Dropout(drops ? 0.5 : 0.0); }),
                                           block([] { return torch::nn::Linear(6, 1); })};
    torch::manual_seed(6);
    auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(2, 2)});
    net->to(torch::kDouble);
    const std::string message = tw::testing::message_of([&] { (void)train(mesh, model_of(split_model(net)), three_epochs("mask_of_a_stage")); });
    if (drops) {
      EXPECT_NE(message.find(one_mask), std::string::npos) << message;
    } else {
      EXPECT_EQ(message, "nothing thrown");
    }
  }
}

/// Changes the targets on one rank, by a factor.
struct ChangesTargets : tw::train::Hook {
  explicit ChangesTargets(double by) : factor(by) {}
  void on_sample(tw::train::State& state) override {
    if (world().rank() == world().size() - 1) state.batch.targets.mul_(factor);
  }
  double factor;
};

// Ranks that hold one model weigh a loss alike, or its slices of the gradient would not fit together.
TW_TEST_ON(Axes, RefuseOtherWeightsOnRanksOfOneModel, {.least = 2}) {
  const int ranks = world().size();
  for (const double factor : {1 + 1e-7, 1.001}) {
    const Mesh mesh(world().split(0, world().rank()), {{"data"}, {"tensor", ranks}});
    torch::manual_seed(6);
    torch::nn::Sequential net(ColumnParallelLinear(mesh["tensor"], 4, 12), RowParallelLinear(mesh["tensor"], 12, 1));
    net->to(torch::kDouble);
    tw::train::Objective objective = tw::train::regression();
    objective.weight = [](const at::Tensor& t) { return t.sum().item<double>(); };
    const Model model = model_of(split_model(net));
    torch::optim::SGD sgd(model.tensors(), 0.01);
    const auto data = tw::testing::squares(31);
    Trainer trainer(mesh, model, sgd, objective, data, data, three_epochs("other_weights"));
    ChangesTargets hook(factor);
    trainer.add(hook);
    const std::string message = tw::testing::message_of([&] { (void)trainer.run(); });
    if (factor > 1 + 1e-5) {
      EXPECT_NE(message.find("have targets of weights"), std::string::npos) << message;
    } else {
      EXPECT_EQ(message, "nothing thrown") << "rounding";
    }
  }
}

/// Draws for numbers of this rank.
struct Draws : tw::train::Hook {
  void on_forward(tw::train::State& /*state*/) override { (void)torch::dropout(torch::full({8}, 1.0 + world().rank()), 0.5, /*train=*/true); }
};

// What hooks draw is not the model's.
TEST(Axes, LetHooksDrawOnEachRank) {
  const int ranks = world().size() % 2 == 0 ? 2 : world().size();
  const Mesh mesh(world().dup(), {{"data"}, {"tensor", ranks}});  // its own, since a failed run revokes it
  torch::manual_seed(6);
  torch::nn::Sequential net(ColumnParallelLinear(mesh["tensor"], 4, 12), RowParallelLinear(mesh["tensor"], 12, 1));
  net->to(torch::kDouble);
  const Model model = model_of(split_model(net));
  torch::optim::SGD sgd(model.tensors(), 0.01);
  const auto data = tw::testing::squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, three_epochs("hooks_draw"));
  Draws draws;
  trainer.add(draws);
  EXPECT_EQ(tw::testing::message_of([&] { (void)trainer.run(); }), "nothing thrown");
}

TEST(Axes, ATensorMeshGoesOnOnAnother) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("again_alone")).summary;
  Options options = three_epochs("again");
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  options.early_stopping.patience = 1000;
  for (const int ranks : {world().size() % 2 == 0 ? 2 : 1, 1}) {
    const Mesh mesh(world(), {{"data"}, {"tensor", ranks}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_net(mesh["tensor"]))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

TEST(Axes, DataTimesTensorTimesStageIsOneProcess) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("three_axes_alone")).summary;
  for (const auto& [stages, split, is_planned] :
       {std::tuple(1, 1, false), std::tuple(1, 2, false), std::tuple(2, 1, false), std::tuple(2, 2, false), std::tuple(2, 2, true)}) {
    if (world().size() % (stages * split) != 0) continue;
    const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
    const auto net = is_planned ? planned_pipeline(mesh) : split_pipeline(mesh);
    Options options = three_epochs("three_axes");
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    const auto ran = train(mesh, model_of(split_model(net)), options);
    expect_equal(ran.summary, expected, mesh.shape().describe());
    if (world().rank() != 0) continue;
    const tw::SafetensorsFile best(options.folder() / "best.safetensors");
    EXPECT_EQ(best.names().size(), 6U) << mesh.shape().describe();
    EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8})) << mesh.shape().describe();
  }
}

}  // namespace axes_test
