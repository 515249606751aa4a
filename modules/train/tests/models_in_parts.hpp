// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs of the trainer on models in parts, and what they are compared with.
#include "longer.hpp"
#include "message_of.hpp"
#include "regression_run.hpp"

#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor/safetensors.hpp>
#include <tw/tensor_parallel/linear.hpp>
#include <tw/tensor_parallel/random.hpp>
#include <tw/tensor_parallel/split_model.hpp>

namespace tw::testing::parts {

using tw::Mesh;
using tw::train::Model;
using tw::train::model_of;
using tw::train::Options;
using tw::train::Trainer;
using namespace tw::tensor_parallel;

// For 18 updates in float64 with sums in a different order.
inline constexpr double tolerance = 1e-10;

struct Ran {
  tw::train::Summary summary;
  Options options;
};

inline Ran train(const Mesh& mesh, const Model& model, Options options, const tw::train::Objective& objective = tw::train::regression()) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, objective, data, data, options, &data);
  return {trainer.run(), options};
}

/// A part of a run: interrupted after `updates` if it begins, else to its end.
inline tw::train::Summary train_a_part(const Mesh& mesh, const Model& model, const Options& options, int64_t updates) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  const bool resumes = options.resume == tw::train::Resume::resume;
  tw::testing::Witness witness(resumes ? tw::testing::never : updates);
  trainer.add(witness);
  tw::train::Summary summary = trainer.run();
  EXPECT_EQ(summary.finished, resumes);
  return summary;
}

inline void expect_equal(const tw::train::Summary& ours, const tw::train::Summary& expected, const std::string& what) {
  EXPECT_EQ(ours.steps, expected.steps) << what;
  EXPECT_EQ(ours.parameters, expected.parameters) << what;
  ASSERT_EQ(ours.test.size(), expected.test.size());
  for (size_t i = 0; i < expected.test.size(); ++i) {
    EXPECT_NEAR(ours.test[i].second, expected.test[i].second, tolerance * expected.test[i].second) << what << ": " << expected.test[i].first;
  }
}

inline Mesh alone() { return {world().split(world().rank(), 0), {{"data"}}}; }

/// The same network, whole and split. Layers are made in order, since they draw from one generator.
inline torch::nn::Sequential whole_net() {
  torch::manual_seed(6);
  torch::nn::Sequential net;
  net->push_back(torch::nn::Linear(4, 8));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(8, 6));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(6, 1));
  net->to(torch::kDouble);
  return net;
}
inline torch::nn::Sequential split_net(const tw::Communicator& axis) {
  torch::manual_seed(6);
  torch::nn::Sequential net;
  net->push_back(ColumnParallelLinear(axis, 4, 8));
  net->push_back(torch::nn::Tanh());
  net->push_back(RowParallelLinear(axis, 8, 6));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(6, 1));
  net->to(torch::kDouble);
  return net;
}

/// The same, also split along `stage`.
inline std::shared_ptr<tw::pipeline::Pipeline> split_pipeline(const Mesh& mesh) {
  using namespace tw::pipeline;
  const tw::Communicator& axis = mesh["tensor"];
  const std::vector<BlockFactory> blocks{block([&] { return ColumnParallelLinear(axis, 4, 8); }), block([] { return torch::nn::Tanh(); }),
                                         block([&] { return RowParallelLinear(axis, 8, 6); }), block([] { return torch::nn::Tanh(); }),
                                         block([] { return torch::nn::Linear(6, 1); })};
  torch::manual_seed(6);
  auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(mesh["stage"].size(), 2)});
  net->to(torch::kDouble);
  return net;
}

/// split_net(), captured and cut by a plan.
inline std::shared_ptr<tw::pipeline::Pipeline> planned_pipeline(const Mesh& mesh) {
  auto net = split_net(mesh["tensor"]);
  const int stages = mesh["stage"].size();
  const auto plan =
      tw::pipeline::plan_together(mesh.comm(), *net, torch::ones({8, 4}, torch::kDouble), {.devices = stages, .micro_batches = 2, .stages = stages});
  return std::make_shared<tw::pipeline::Pipeline>(mesh["stage"], *net, plan);
}

/// Of a run that keeps its checkpoints, all but the oldest are removed.
inline void leave_the_first_checkpoint(const Options& options) {
  world().barrier();
  if (world().rank() == 0) {
    std::vector<std::filesystem::path> steps;
    for (const auto& each : std::filesystem::directory_iterator(options.folder() / "checkpoints")) steps.push_back(each.path());
    std::ranges::sort(steps);
    for (size_t i = 1; i < steps.size(); ++i) std::filesystem::remove_all(steps[i]);
  }
  world().barrier();
}

inline Options clipped(const std::string& name) {
  Options options = three_epochs(name);
  options.clip.norm = 0.05;
  return options;
}

}  // namespace tw::testing::parts
