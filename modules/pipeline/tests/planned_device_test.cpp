// SPDX-License-Identifier: Apache-2.0
// Planned pipelines on accelerators: their results, including random numbers, equal those of the CPU, and the host waits only for losses.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <accelerator.hpp>
#include <tw/base/clock.hpp>
#include <tw/pipeline/measured_profile.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

namespace tw::pipeline {
namespace planned_device_test {

namespace accelerator = tw::testing::accelerator;
using at::Tensor;
using testing::device;
using testing::place;
using testing::world;

constexpr int64_t rows = 12;  // at least two on each of two replicas, because a batch norm rejects a single row
constexpr int micro_batches = 3;

/// With random numbers, running means, and its own constants.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(c10::Device device, bool norms) {
    torch::manual_seed(4);
    body->push_back(torch::nn::Linear(6, 8));
    body->push_back(torch::nn::Dropout(0.3));
    body->push_back(torch::nn::Tanh());
    if (norms) body->push_back(torch::nn::BatchNorm1d(8));
    body->push_back(torch::nn::Linear(8, 8));
    body->push_back(torch::nn::RReLU());
    body->push_back(torch::nn::Linear(8, 4));
    register_module("body", body);
    to(torch::kDouble);
    if (!device.is_cpu()) testing::place_module(this);
  }
  Tensor forward(const Tensor& x) {
    const Tensor weights = torch::tensor({1.0, 2.0, 0.5, 1.5, 1.0, 3.0}, x.options());
    return body->forward(x * weights + torch::zeros({x.size(0), 6}, x.options())) + torch::rand({x.size(0), 4}, x.options());
  }
  torch::nn::Sequential body;
};
TORCH_MODULE(Net);

Loss loss() {
  return [](const Tensor& y, const Tensor& t) { return torch::mse_loss(y, t); };
}

/// Planned and cut into two stages, or one stage with two replicas, on a kind of device.
struct Trained {
  Trained(c10::Device device, bool staged, bool norms) : net(device, norms) {
    torch::manual_seed(9);
    x = torch::randn({rows, 6}, torch::kDouble).to(device);
    t = torch::randn({rows, 4}, torch::kDouble).to(device);
    ModelPlan planned = plan_together(world(), *net, x, {.devices = 2});
    Plan plan{.hash = planned.result().profile.hash, .batch = rows, .micro_batches = micro_batches, .schedule = ScheduleKind::gpipe, .stages = {}};
    const auto units = static_cast<int>(planned.result().profile.operators.size());
    for (int stage = 0; stage < (staged ? 2 : 1); ++stage) {
      plan.stages.push_back({.replicas = staged ? 1 : 2, .recompute = staged && !norms ? Recompute::full : Recompute::none});
      for (int unit = units * stage / 2; unit < (staged ? units * (stage + 1) / 2 : units); ++unit) plan.stages.back().operators.push_back(unit);
    }
    planned.use(plan);
    pipeline = std::make_shared<Pipeline>(world(), *net, planned, 5);
    if (!pipeline->parameters().empty()) sgd.emplace(pipeline->parameters(), 0.1);
  }
  double step() {
    pipeline->zero_grad();
    const double loss_now = pipeline->run(x, t, loss());
    if (sgd) sgd->step();
    return loss_now;
  }

  Net net;
  Tensor x, t;
  std::shared_ptr<Pipeline> pipeline;
  std::optional<torch::optim::SGD> sgd;
};

// The same operators as on the CPU with the same numbers; layers may use other kernels there, which round differently.
TEST(PlannedDevice, EqualsTheCpu) {
  for (const bool staged : {false, true}) {
    Trained expected(torch::kCPU, staged, staged);
    Trained found(device(), staged, staged);
    for (int step = 0; step < 3; ++step) EXPECT_NEAR(found.step(), expected.step(), 1e-12) << staged << step;
    const auto theirs = expected.pipeline->named_parameters();
    for (const auto& each : found.pipeline->named_parameters()) {
      EXPECT_EQ(each.value().device(), device());
      EXPECT_TRUE(each.value().cpu().allclose(theirs[each.key()], 1e-12, 1e-12)) << staged << each.key();
    }
  }
}

// Waits for the loss, if there is one; and with replicas, for the buffers that changed.
TEST(PlannedDevice, TheHostWaitsForTheLossAlone) {
  for (const bool staged : {false, true}) {
    for (const bool norms : {false, true}) {
      Trained run(device(), staged, norms);
      (void)run.step();
      const bool has_loss = !staged || world().rank() == 1;
      SCOPED_TRACE(concat(staged, norms));
      testing::expect_host_waits((has_loss ? 1 : 0) + (norms && !staged ? 1 : 0), [&] { (void)run.step(); });
    }
  }
}

// Queueing work on a device takes microseconds; profiles must report its computing time, which on a loaded machine varies by several times.
TEST(PlannedDevice, ProfilesTellOfTheDevicesTimeAndMemory) {
  constexpr int64_t width = 384;
  const Tensor weight = torch::randn({width, width}, torch::kDouble);
  const Tensor x = torch::randn({2 * width, width}, torch::kDouble);
  const auto place_both = [&] {
    place(weight);
    place(x);
  };
  if (testing::on_a_real_device()) place_both();  // the simulated device runs at the CPU's speed
  double alone = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 4; ++i) {
    const Stopwatch watch;
    (void)x.matmul(weight);
    if (testing::on_a_real_device()) c10::impl::VirtualGuardImpl(device().type()).synchronizeDevice(device().index());
    alone = std::min(alone, watch.elapsed().count());
  }
  place_both();
  weight.requires_grad_(true);
  const graph::Graph graph =
      graph::capture([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0].matmul(weight)}; }, {{"weight", weight}}, {}, {x});
  const Profile profile = measured_profile(graph, [&](const std::string&) { return weight; }, {x}, {.repetitions = 3});
  ASSERT_EQ(profile.operators.size(), 1U);
  EXPECT_GT(profile.operators[0].forward.of(2 * width), alone / 10);
  EXPECT_GT(profile.operators[0].backward.of(2 * width), alone / 10);
  EXPECT_DOUBLE_EQ(profile.operators[0].saved_bytes.of(2 * width), 2 * width * width * 8) << "what it gives";
  EXPECT_GE(profile.operators[0].workspace_bytes.of(2 * width), (2 + 1) * width * width * 8) << "the cotangent of that, and the weight's gradient";
}

// For example a stage that flattens: the trainer does not know its device.
TEST(PlannedDevice, StagesWithoutParametersAreWhereTheOthersAre) {
  const std::vector<BlockFactory> blocks{block([] { return torch::nn::Flatten(); }), block([] { return torch::nn::Linear(6, 1); })};
  for (const bool at_the_end : {false, true}) {
    const auto factories = at_the_end ? std::vector<BlockFactory>{blocks[1], blocks[0]} : blocks;
    Pipeline pipeline(world(), factories, {.schedule = gpipe(2, 2)});
    testing::place_module(&pipeline);
    const bool is_empty = pipeline.parameters().empty();
    EXPECT_EQ(is_empty, (world().rank() == 0) != at_the_end);
    const Tensor x = torch::ones({4, 6});
    const Tensor t = torch::ones({4, 1});
    if (!is_empty) {
      place(x);
      place(t);
    }
    EXPECT_TRUE(std::isfinite(pipeline.run(x, t, loss())));
    const Tensor outputs = pipeline.forward(x);
    EXPECT_EQ(outputs.device(), device());
    EXPECT_EQ(outputs.size(0), 4);
  }
}

}  // namespace planned_device_test
}  // namespace tw::pipeline
