// SPDX-License-Identifier: Apache-2.0
// A pipeline in the trainer: its numbers equal those of one process, on every mesh and after a change of mesh.
#include "message_of.hpp"
#include "regression_run.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <fstream>
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

/// Ranks per stage of a pipeline on `ranks` ranks.
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
  tw::testing::place_module(net);
  const auto model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
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

// For 18 updates in float64 with sums in a different order.
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
  for (const auto& each : whole) EXPECT_TRUE(saved.tensor(each.name).equal(each.tensor.cpu())) << each.name;
}

/// Counts the samples that are read.
class Counted : public tw::Dataset {
 public:
  int64_t size() const override { return squares_.size(); }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    read += static_cast<int64_t>(indices.size());
    return squares_.batch(indices);
  }
  mutable std::atomic<int64_t> read = 0;

 private:
  tw::TensorDataset squares_ = squares(31);
};

/// Addresses of a rank's gradients after its passes, and after their reduction.
struct Places : tw::train::Hook {
  void on_forward(tw::train::State& state) override { gathered = places_of(state); }
  void on_backward(tw::train::State& state) override {
    EXPECT_EQ(places_of(state), gathered) << "of step " << state.step;
    ++updates;
  }
  static std::vector<const void*> places_of(const tw::train::State& state) {
    std::vector<const void*> places;
    for (const auto& parameter : state.model.parameters) {
      EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
      places.push_back(parameter.tensor.grad().const_data_ptr());
    }
    return places;
  }
  std::vector<const void*> gathered;
  int updates = 0;
};

/// The maximum number of stages, and their optimizer.
struct Staged {
  int stages = lengths().back();
  Mesh mesh{world(), {{"data"}, {"stage", stages}}};
  std::shared_ptr<Pipeline> net =
      in_double(std::make_shared<Pipeline>(mesh["stage"], blocks(), PipelineOptions{.schedule = one_forward_one_backward(stages, 3)}));
  tw::train::Model model = model_of(net);
  torch::optim::SGD sgd{model.tensors(), 0.05};

 private:
  static std::shared_ptr<Pipeline> in_double(std::shared_ptr<Pipeline> pipeline) {
    pipeline->to(torch::kDouble);
    tw::testing::place_module(pipeline);
    return pipeline;
  }
};

TEST(Stages, OnlyThoseAtTheEndsLookAtSamples) {
  Staged staged;
  const Counted train;
  const Counted test;
  Options options = three_epochs("counted");
  options.loader_workers = 2;
  Trainer trainer(staged.mesh, staged.model, staged.sgd, tw::train::regression(), train, test, options);
  const auto summary = trainer.run();
  EXPECT_EQ(summary.steps, 18);
  const int stage = staged.mesh.coordinate("stage");
  const bool looks = stage == 0 || stage == staged.stages - 1;
  EXPECT_EQ(train.read > 0, looks) << train.read;
  EXPECT_EQ(test.read > 0, looks) << test.read;
  const auto expected = run_alone();
  EXPECT_EQ(summary.test.size(), expected.test.size()) << "they know the figures all the same";
  EXPECT_TRUE(std::isfinite(summary.test[0].second));
}

/// A regressor's error as a metric, counting its calls on this rank.
struct Judged {
  tw::train::Objective objective(bool throws = false) {
    tw::train::Objective result = tw::train::regression();
    result.metrics.push_back({.name = "error", .sum = [this, throws](const at::Tensor& outputs, const at::Tensor& targets) {
                                if (throws) throw tw::Error("a metric that throws");
                                ++times;
                                return (outputs - targets).abs().sum().item<double>();
                              }});
    return result;
  }
  int times = 0;
};

TEST(Stages, OutputsOfEvaluationsStayOnTheLastOne) {
  Staged staged;
  const auto data = squares(31);
  const int64_t last = staged.stages - 1;
  Judged judged;
  Trainer trainer(staged.mesh, staged.model, staged.sgd, judged.objective(), data, data, three_epochs("judged"));
  const auto figures = trainer.evaluate(data);
  EXPECT_EQ(judged.times > 0, staged.mesh.coordinate("stage") == last) << judged.times;
  at::Tensor numbers = torch::tensor({figures.at(0).second, figures.back().second}, torch::kDouble);
  EXPECT_EQ(figures.back().first, "error");
  EXPECT_GT(figures.back().second, 0);
  at::Tensor of_root = numbers.clone();
  tw::broadcast(world(), of_root, tw::Rank(0));
  EXPECT_TRUE(numbers.equal(of_root)) << "numbers travel";
}

TEST(Stages, AMetricThatThrowsEndsTheEvaluationOnAllOfThem) {
  Staged staged;
  const auto data = squares(31);
  Judged judged;
  Trainer trainer(staged.mesh, staged.model, staged.sgd, judged.objective(/*throws=*/true), data, data, three_epochs("throws"));
  EXPECT_THROW((void)trainer.evaluate(data), tw::Error);
}

/// Micro-batches add to the memory that is reduced, beginning with the first.
TEST(Stages, GradientsLandWhereTheyAreReduced) {
  Staged staged;
  const auto data = squares(30);  // all updates have samples on each rank
  Trainer trainer(staged.mesh, staged.model, staged.sgd, tw::train::regression(), data, data, three_epochs("places"));
  Places places;
  trainer.add(places);
  trainer.run();
  EXPECT_EQ(places.updates, 15);
}

TEST(Stages, TheTimelineShowsMicroBatches) {
  Options options = three_epochs("micro_batches");
  options.trace = std::filesystem::path(testing::TempDir()) / "tw_train" / tw::concat(options.name, ".json");
  std::filesystem::create_directories(options.trace.parent_path());
  run(world(), world().size(), false, options);
  if (world().rank() != 0) return;
  std::ifstream in(options.trace);
  std::map<std::string, int> count;
  const auto timeline = nlohmann::json::parse(in);
  for (const auto& event : timeline["traceEvents"]) ++count[event["name"]];
  for (const char* phase : {"micro-batch forward", "micro-batch backward", "forward", "backward"}) EXPECT_GT(count[phase], 0) << phase;
}

}  // namespace stages_test
