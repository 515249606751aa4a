// SPDX-License-Identifier: Apache-2.0
// A run on a device against the same run on the CPU, and what its host waits for.
#include "message_of.hpp"
#include "regression_run.hpp"

#include <accelerator.hpp>
#include <tw/comm/pending_scalar.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor/safetensors.hpp>

namespace device_training_test {

using tw::testing::along_shard;
using tw::testing::Outcome;
using tw::testing::Way;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::Meeting;
using tw::train::Sharded;

TEST(PendingScalar, IsOfWhatIsStillToBeComputed) {
  const at::Tensor late = torch::zeros({2}).to(tw::testing::device());
  late.copy_(torch::full({2}, 3.0).pin_memory(), /*non_blocking=*/true);
  const tw::PendingScalar sum(late.sum());
  late.zero_();  // after the sum
  EXPECT_EQ(sum.value(world()), 6);
}

/// Counts how often the host waits between updates, and records the epochs' results.
struct Watch : tw::train::Hook {
  void on_update(tw::train::State& /*state*/) override {
    const int64_t now = tw::testing::accelerator::host_waits();
    if (before > 0) most = std::max(most, now - before);
    before = now;
  }
  void on_end_epoch(tw::train::State& /*state*/, const tw::train::EpochReport& report) override {
    before = 0;
    losses.push_back(report.train_loss);
  }
  int64_t before = 0;
  int64_t most = 0;
  std::vector<double> losses;
};

Outcome run(const tw::train::Options& options, bool on_device, Watch& watch, const Way& way = {}) {
  // A GPU draws different numbers than the CPU; the simulated accelerator draws the same.
  const auto model = tw::testing::make_regressor(tw::testing::on_a_real_device() ? 0 : 0.2, on_device);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = tw::testing::squares(31);
  tw::train::Trainer trainer(tw::Mesh(world(), way.axes), model, adam, tw::train::regression(), data, data, options, &data);
  trainer.add(watch);
  const auto summary = trainer.run();
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : tw::testing::copies(model)) parameters.push_back(parameter.cpu());
  return {parameters, {}, summary};
}

const std::vector<Way> ways{{.name = "every_step"},
                            {.name = "power_sgd", .replicas = {.compression = tw::train::CompressionKind::power_sgd}},
                            {.name = "optimizer", .axes = along_shard, .shard = {.what = Sharded::optimizer}},
                            {.name = "gradients", .axes = along_shard, .shard = {.what = Sharded::gradients}},
                            {.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 4}},
                            {.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 4}}};

// Equal numbers, since with two ranks the order of summation is the same. The simulated accelerator uses the CPU's operators: 18 steps of Adam keep a
// difference in the last bit small. A GPU rounds differently, by some 1e-16 per operator, of which 18 steps of a smooth network make at most 1e-11.
TEST(DeviceTraining, EqualsTheCpus) {
  const double tolerance = tw::testing::on_a_real_device() ? 1e-11 : 1e-12;
  for (const Way& way : ways) {
    for (const int64_t accumulation : {1, 2}) {
      auto options = tw::testing::options_for("device", way);
      options.accumulation = accumulation;
      Watch expected_watch;
      Watch watch;
      const Outcome expected = run(options, /*on_device=*/false, expected_watch, way);
      const Outcome found = run(options, /*on_device=*/true, watch, way);
      const std::string what = tw::concat(way.name, " of ", accumulation);
      tw::testing::expect_close(found, expected, tolerance, what);
      ASSERT_EQ(found.summary.test.size(), expected.summary.test.size());
      for (size_t i = 0; i < found.summary.test.size(); ++i)
        EXPECT_NEAR(found.summary.test[i].second, expected.summary.test[i].second, tolerance) << what;
      for (size_t i = 0; i < watch.losses.size(); ++i) EXPECT_NEAR(watch.losses[i], expected_watch.losses[i], tolerance) << what;
    }
  }
}

// The host waits to learn whether gradients are finite, which decides on the update. The loss arrives with it.
TEST(DeviceTraining, TheHostWaitsOnceAnUpdate) {
  if (tw::testing::on_a_real_device()) GTEST_SKIP() << "what the host waits for is not counted";
  for (const Way& way : ways) {
    for (const int64_t workers : {0, 2}) {
      auto options = tw::testing::options_for("waits", way);
      options.loader_workers = workers;
      Watch watch;
      (void)run(options, /*on_device=*/true, watch, way);
      EXPECT_EQ(watch.most, 1) << way.name << " with " << workers;
    }
  }
}

/// A captured module in two stages, one per rank, with dropout, whose numbers are drawn by row.
tw::train::Summary run_in_stages(bool on_device, Watch& watch, bool keeps = false) {
  namespace pipeline = tw::pipeline;
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Dropout(0.2), torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  if (on_device) tw::testing::place_module(net);
  const tw::Mesh mesh(world(), {{"data"}, {"stage", 2}});
  const auto example = torch::rand({6, 4}, net->parameters()[0].options().requires_grad(false));
  auto planned = pipeline::plan_together(mesh["stage"], *net, example, {.devices = 2});
  pipeline::Plan plan{
      .hash = planned.result().profile.hash, .batch = 6, .micro_batches = 2, .schedule = pipeline::ScheduleKind::gpipe, .stages = {{}, {}}};
  for (size_t unit = 0; unit < planned.result().profile.operators.size(); ++unit) {
    plan.stages[unit < 2 ? 0 : 1].operators.push_back(static_cast<int>(unit));
  }
  planned.use(plan);
  const auto model = tw::train::model_of(std::make_shared<pipeline::Pipeline>(mesh["stage"], *net, planned, 7));
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = tw::testing::squares(31);
  auto options = tw::testing::three_epochs("planned");
  options.accumulation = 1;
  options.checkpoint.every_epochs = keeps ? 1 : 0;
  options.resume = tw::train::Resume::fresh;
  tw::train::Trainer trainer(mesh, model, adam, tw::train::regression(), data, data, options, &data);
  trainer.add(watch);
  return trainer.run();
}

// The loss is known after each pass, on the rank that has it; whether gradients are finite, after each update.
TEST(DeviceTraining, PlannedStagesEqualTheCpus) {
  Watch expected_watch;
  Watch watch;
  const auto expected = run_in_stages(/*on_device=*/false, expected_watch);
  const auto found = run_in_stages(/*on_device=*/true, watch);
  ASSERT_EQ(found.test.size(), expected.test.size());
  for (size_t i = 0; i < found.test.size(); ++i) EXPECT_NEAR(found.test[i].second, expected.test[i].second, 1e-12);
  for (size_t i = 0; i < watch.losses.size(); ++i) EXPECT_NEAR(watch.losses[i], expected_watch.losses[i], 1e-12);
  if (tw::testing::on_a_real_device()) return tw::testing::leave_out("what the host waits for is not counted");
  EXPECT_EQ(watch.most, world().rank() == 1 ? 2 : 1);
}

// The best model is assembled from devices into host memory, equally on all ranks.
TEST(DeviceTraining, TheBestModelOfStagesIsPutTogether) {
  Watch watch;
  ASSERT_GT(run_in_stages(/*on_device=*/true, watch, /*keeps=*/true).best_epoch, 0);
  world().barrier();
  const auto best = tw::testing::three_epochs("planned").folder() / "best.safetensors";
  EXPECT_EQ(tw::SafetensorsFile(best).names().size(), 4U);
}

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(8, 8))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

/// One epoch of layers in parallel on two ranks; its best model is the final one.
tw::train::Summary run_in_layers(bool on_device, const std::string& name) {
  using namespace tw::layer_parallel;
  const auto made = [on_device](auto layer) {
    layer->to(torch::kDouble);
    if (on_device) tw::testing::place_module(layer);
    return layer;
  };
  const tw::Mesh mesh(world(), {{"data"}, {"layer", 2}});
  const auto net = std::make_shared<LayerParallel>(
      mesh["layer"],
      std::vector<Block>{block([=] { return made(torch::nn::Linear(4, 8)); }, 1), block([=] { return made(Residual()); }, 8),
                         block([=] { return made(torch::nn::Linear(8, 1)); }, 1)},
      LayerParallelOptions{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 4}, .backward = {.iterations = 4}});
  const auto model = tw::train::model_of(net);
  torch::optim::SGD sgd(model.tensors(), 0.05);
  const auto data = tw::testing::squares(31);
  auto options = tw::testing::three_epochs(name);
  options.epochs = 1;
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  tw::train::Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  return trainer.run();
}

// Parts lie on the devices of different ranks, and some ranks have no part of a plain layer.
TEST(DeviceTraining, LayersInParallelEqualTheCpusAndKeepTheBest) {
  const double tolerance = tw::testing::on_a_real_device() ? 1e-11 : 1e-12;
  const auto expected = run_in_layers(/*on_device=*/false, "layers_on_cpus");
  const auto found = run_in_layers(/*on_device=*/true, "layers_on_devices");
  EXPECT_EQ(found.best_epoch, 1);
  ASSERT_EQ(found.test.size(), expected.test.size());
  for (size_t i = 0; i < found.test.size(); ++i) EXPECT_NEAR(found.test[i].second, expected.test[i].second, tolerance);
  world().barrier();
  const auto file = [](const char* name) { return tw::SafetensorsFile(tw::testing::three_epochs(name).folder() / "best.safetensors"); };
  const auto best = file("layers_on_devices");
  const auto of_cpus = file("layers_on_cpus");
  EXPECT_EQ(best.names(), of_cpus.names());
  EXPECT_EQ(best.names().size(), 20U) << "ten layers of weight and bias";
  for (const std::string& name : best.names()) {
    EXPECT_TRUE(best.tensor(name).allclose(of_cpus.tensor(name), 0, tolerance)) << name;
  }
}

/// Allocates more than a device has, in the middle of a pass.
struct Greed : tw::train::Hook {
  void on_forward(tw::train::State& /*state*/) override { (void)at::empty({int64_t{3} << 30}, tw::testing::on_device(at::kByte)); }
};

TEST(DeviceTraining, SaysWhereTheMemoryWasFull) {
  if (tw::testing::on_a_real_device()) GTEST_SKIP() << "how much memory it has is not known";
  const auto model = tw::testing::make_regressor(0.2, true);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = tw::testing::squares(31);
  tw::train::Trainer trainer(world(), model, adam, tw::train::regression(), data, data, tw::testing::three_epochs("full"));
  Greed greed;
  trainer.add(greed);
  const std::string message = tw::testing::message_of([&] { (void)trainer.run(); });
  EXPECT_NE(message.find("a device's memory is full: pass 0 of step 0, over "), std::string::npos) << message;
  EXPECT_NE(message.find("has no 3221225472 bytes left"), std::string::npos) << message;
}

}  // namespace device_training_test
