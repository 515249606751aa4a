// SPDX-License-Identifier: Apache-2.0
// A pipeline in the trainer: its numbers are those of one process, on every mesh and over a change of meshes.
#include "regression_run.hpp"

#include <tw/pipeline/pipeline.hpp>
#include <tw/tensor/safetensors.hpp>

namespace stages_test {

using tw::Mesh;
using tw::testing::squares;
using tw::testing::three_epochs;
using tw::testing::Witness;
using tw::testing::world;
using tw::train::model_of;
using tw::train::Options;
using tw::train::Resume;
using tw::train::Trainer;
using namespace tw::pipeline;

std::vector<BlockFactory> blocks() {
  std::vector<BlockFactory> all{block([] { return torch::nn::Linear(4, 8); })};
  for (int i = 0; i < 3; ++i) {
    all.push_back(block([] { return torch::nn::Tanh(); }));
    all.push_back(block([i] { return torch::nn::Linear(8, i == 2 ? 1 : 8); }));
  }
  return all;
}

/// Ranks of each stage of a pipeline on `ranks` ranks.
std::vector<int> replicas_of(int ranks, bool replicated) {
  return replicated && ranks > 2 ? std::vector<int>{1, ranks - 1} : std::vector<int>(static_cast<size_t>(ranks), 1);
}

struct Ran {
  tw::train::Summary summary;
  std::shared_ptr<Pipeline> pipeline;
};

/// Three epochs over the mesh data x stage, or a part of them.
Ran run(const tw::Communicator& comm, int stages, bool replicated, const Options& options, int64_t stop_at = tw::testing::never) {
  const Mesh mesh(comm, {{"data"}, {"stage", stages}});
  const std::vector<int> replicas = replicas_of(stages, replicated);
  torch::manual_seed(5);
  auto net = std::make_shared<Pipeline>(
      mesh["stage"], blocks(), PipelineOptions{.schedule = one_forward_one_backward(static_cast<int>(replicas.size()), 3), .replicas = replicas});
  net->to(torch::kDouble);
  const auto model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options);
  Witness witness(stop_at);
  trainer.add(witness);
  return {trainer.run(), net};
}

Options accumulating(const std::string& name, int64_t accumulation) {
  Options options = three_epochs(name);
  options.accumulation = accumulation;
  return options;
}

tw::train::Summary run_alone(int64_t accumulation = 1) {
  return run(world().split(world().rank(), 0), 1, false, accumulating("alone", accumulation)).summary;
}

std::vector<int> lengths() {
  std::vector<int> result;
  for (const int stages : {1, 2, 3, 4}) {
    if (world().size() % stages == 0) result.push_back(stages);
  }
  return result;
}

// 18 updates in float64, of sums in other orders.
constexpr double tolerance = 1e-10;

TEST(Stages, TrainLikeOneProcess) {
  for (const int64_t accumulation : {1, 2}) {
    const auto expected = run_alone(accumulation);
    EXPECT_EQ(expected.parameters, 4 * 8 + 8 + 2 * (8 * 8 + 8) + 8 + 1);
    for (const int stages : lengths()) {
      for (const bool replicated : {false, true}) {
        const auto summary = run(world(), stages, replicated, accumulating("stages", accumulation)).summary;
        EXPECT_EQ(summary.parameters, expected.parameters);
        EXPECT_EQ(summary.steps, expected.steps);
        for (size_t i = 0; i < expected.test.size(); ++i) {
          EXPECT_NEAR(summary.test[i].second, expected.test[i].second, tolerance * expected.test[i].second)
              << stages << ": " << expected.test[i].first;
        }
      }
    }
  }
}

TEST(Stages, GoOnOverAnotherMesh) {
  const auto expected = run_alone();
  for (const int before : lengths()) {
    for (const int after : lengths()) {
      Options options = three_epochs("restaged");
      options.checkpoint.every_epochs = 1;
      options.resume = Resume::fresh;
      EXPECT_FALSE(run(world(), before, false, options, 8).summary.finished);
      options.resume = Resume::resume;
      const auto summary = run(world(), after, true, options).summary;
      EXPECT_TRUE(summary.finished);
      EXPECT_NEAR(summary.test[0].second, expected.test[0].second, tolerance * expected.test[0].second) << before << " and then " << after;
    }
  }
}

TEST(Stages, TheBestModelIsWhole) {
  Options options = three_epochs("best_of_stages");
  options.checkpoint.every_epochs = 1;
  options.resume = Resume::fresh;
  options.epochs = 1;
  const Ran ran = run(world(), world().size(), false, options);
  ASSERT_EQ(ran.summary.best_epoch, 1);
  const auto whole = ran.pipeline->whole_on_root();
  if (world().rank() != 0) return;
  const tw::SafetensorsFile saved(options.folder() / "best.safetensors");
  ASSERT_EQ(whole.size(), 8U) << "four layers of weight and bias";
  for (const auto& each : whole) EXPECT_TRUE(saved.tensor(each.name).equal(each.tensor)) << each.name;
}

}  // namespace stages_test
