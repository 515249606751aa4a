// SPDX-License-Identifier: Apache-2.0
// The predicted memory of a plan equals the memory counted by LibTorch's allocator.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/base/concat.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor/held_memory.hpp>

namespace tw::pipeline {
namespace planned_memory_test {

using testing::world;

constexpr int micro_batches = 8;

/// The operators in equal stages, of which one device is rank 0, and the other one all other ranks; everything on one rank if there is only one. In
/// segments of four.
Plan halves(const PlanResult& result, ScheduleKind schedule, Recompute recompute) {
  const auto count = static_cast<int>(result.profile.operators.size());
  Plan plan{.hash = result.profile.hash, .batch = result.options.batch, .micro_batches = micro_batches, .schedule = schedule};
  for (const int device : make_schedule(schedule, std::min(2, world().size()), micro_batches).device_of_stages())
    plan.stages.push_back({.replicas = device == 0 ? 1 : world().size() - 1, .recompute = recompute});
  const auto stages = static_cast<int>(plan.stages.size());
  for (int op = 0; op < count; ++op) {
    StagePlan& stage = plan.stages[static_cast<size_t>(op * stages / count)];
    if (stage.operators.size() % 4 == 0) stage.segments.push_back(op);
    stage.operators.push_back(op);
  }
  return plan;
}

double bytes_of(const std::vector<at::Tensor>& tensors) {
  double bytes = 0;
  for (const at::Tensor& each : tensors) bytes += static_cast<double>(each.nbytes());
  return bytes;
}

/// Weights, Adam's two moments, allocations of a step, and the caller's batch as far as it is kept.
double measured_bytes(Pipeline& pipeline, const Plan& plan, const at::Tensor& x, const at::Tensor& y) {
  const auto loss = [](const at::Tensor& logits, const at::Tensor& t) {
    return torch::cross_entropy_loss(logits.reshape({t.numel(), -1}), t.reshape({-1}));
  };
  pipeline.zero_grad();
  const auto allocated = static_cast<double>(peak_bytes(c10::kCPU, [&] { pipeline.run(x, y, loss); }));  // first step: includes buckets
  const StagePlan& stage = plan.stages.front();
  const bool keeps_inputs = pipeline.stages().front() == 0 && stage.recompute != Recompute::none;
  const double kept = keeps_inputs ? static_cast<double>(x.nbytes()) * stage.figures.in_flight / micro_batches : 0;
  return 3 * bytes_of(pipeline.parameters()) + allocated + kept;
}

/// With the same times for all operators: some schedules follow the stages' times, so that measured times would change what a device holds from run
/// to run.
Profile with_equal_times(Profile profile) {
  constexpr double row_s = 1e-6;
  for (ProfiledOperator& op : profile.operators) {
    op.forward = {.per_row = row_s};
    op.weights = {.per_row = op.parameters.empty() ? 0 : row_s};
    op.backward = {.per_row = row_s + op.weights.per_row};
  }
  return profile;
}

template <class Module>
ModelPlan planned_with_equal_times(Module& model, const at::Tensor& x) {
  PlanResult result = plan_together(world(), model, x, {.devices = world().size(), .micro_batches = micro_batches}).result();
  result.profile = with_equal_times(std::move(result.profile));
  graph::ModeGraphs captured = graph::capture_modes(model, graph::forward_of(model), {x});
  return {std::move(captured.training), std::move(captured.evaluation), std::move(result)};
}

template <class Module>
void expect_predicted(const std::string& name, Module& model, const at::Tensor& x, const at::Tensor& y) {
  ModelPlan plan = planned_with_equal_times(model, x);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1,
                                        ScheduleKind::interleaved, ScheduleKind::zero_bubble_v}) {
      if (stages_per_device(schedule) > 1 && recompute == Recompute::selective) continue;
      plan.use(halves(plan.result(), schedule, recompute));
      Pipeline pipeline(world(), model, plan);
      const double predicted = device_memory(plan.best()).at(world().rank() == 0 ? 0 : 1);
      const double measured = measured_bytes(pipeline, plan.best(), x, y);
      const std::string what = concat(name, ", ", name_of(schedule), ", recompute ", name_of(recompute), ", stage ", pipeline.stages().front(),
                                      ": predicted ", predicted, ", measured ", measured);
      EXPECT_LE(measured, 1.2 * predicted) << what;
      // All that segments keep counts until the end of the last backward pass; the plan ignores that some of it is freed earlier. The maxima of
      // several stages need not come at the same time, and how many of their messages are on the way at once depends on the ranks' speed.
      const double least = stages_per_device(schedule) > 1 ? 0.45 : recompute == Recompute::selective ? 0.75 : 0.8;
      EXPECT_GE(measured, least * predicted) << what;
    }
  }
}

TEST(PlannedMemory, OfMuchWeight) {
  torch::nn::Sequential mlp(torch::nn::Linear(512, 512));
  for (int layer = 0; layer < 5; ++layer) {
    mlp->push_back(torch::nn::Tanh());
    mlp->push_back(torch::nn::Linear(512, 512));
  }
  expect_predicted("mlp", *mlp, torch::randn({64, 512}), torch::randint(512, {64}));
}

TEST(PlannedMemory, OfLargeActivations) {
  torch::nn::Sequential mlp(torch::nn::Linear(64, 64));
  for (int layer = 0; layer < 11; ++layer) {
    mlp->push_back(torch::nn::Tanh());
    mlp->push_back(torch::nn::Linear(64, 64));
  }
  expect_predicted("mlp", *mlp, torch::randn({4096, 64}), torch::randint(64, {4096}));
}

TEST(PlannedMemory, OfLeNet) {
  models::LeNet lenet;
  expect_predicted("lenet", *lenet, torch::randn({128, 1, 28, 28}), torch::randint(10, {128}));
}

TEST(PlannedMemory, OfGpt) {
  models::Gpt gpt(models::GptOptions{.width = 64, .blocks = 4});
  expect_predicted("gpt", *gpt, torch::randint(256, {32, 64}), torch::randint(256, {32, 64}));
}

}  // namespace planned_memory_test
}  // namespace tw::pipeline
