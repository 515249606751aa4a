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

// A plain dropout on slices drops the same features of each; the first update finds that.
TEST(Axes, RefuseOneMaskForAllSlices) {
  for (const int ranks : {1, 2, 3, 4}) {
    if (world().size() % ranks != 0 || 12 % ranks != 0) continue;
    for (const std::string where : {"slices", "slices apart", "whole"}) {
      const Mesh mesh(world().split(0, world().rank()), {{"data"}, {"tensor", ranks}});  // its own, since a failed run revokes it
      torch::manual_seed(6);
      torch::nn::Sequential net(ColumnParallelLinear(mesh["tensor"], 4, 12));
      if (where == "slices") net->push_back(torch::nn::Dropout(0.5));
      if (where == "slices apart") net->push_back(SplitDropout(mesh["tensor"], 0.5));
      net->push_back(RowParallelLinear(mesh["tensor"], 12, 6));
      if (where == "whole") net->push_back(torch::nn::Dropout(0.5));
      net->push_back(torch::nn::Linear(6, 1));
      net->to(torch::kDouble);
      const std::string message = tw::testing::message_of([&] { (void)train(mesh, model_of(split_model(net)), three_epochs("one_mask")); });
      if (where == "slices" && ranks > 1) {
        EXPECT_NE(message.find("draws the same random numbers for different slices"), std::string::npos) << message;
      } else {
        EXPECT_EQ(message, "nothing thrown") << where;
      }
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
  for (const int stages : {1, 2}) {
    for (const int split : {1, 2}) {
      if (world().size() % (stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const auto net = split_pipeline(mesh);
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
}

}  // namespace axes_test
