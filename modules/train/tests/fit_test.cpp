// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/models.hpp>
#include <tw/train.hpp>

namespace {

using tw::testing::world;

/// Images whose bright row tells the class.
tw::ImageDataset rows(int64_t samples) {
  torch::manual_seed(static_cast<uint64_t>(samples));
  auto images = torch::randint(60, {samples, 28, 28}, torch::kByte);
  const auto labels = (torch::arange(samples) % 10).to(torch::kByte);
  for (int64_t i = 0; i < samples; ++i) images[i][4 + 2 * (i % 10)].add_(180);
  return {images, labels, 10};
}

tw::train::Model make_mlp() {
  torch::manual_seed(static_cast<uint64_t>(world().rank()));  // DataParallel must make them equal
  tw::models::Mlp net(std::vector<int64_t>{784, 32, 10});
  return {net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }};
}

/// Counts what it is told.
struct Recorder : tw::train::Observer {
  void on_epoch_begin(int64_t, int64_t samples) override { begins += samples; }
  void on_step(const tw::train::StepReport& report) override {
    ++steps;
    last_step = report;
  }
  void on_epoch_end(const tw::train::EpochReport& report) override { epochs.push_back(report); }
  void on_end(const tw::train::Summary& summary) override { ends.push_back(summary); }
  int64_t begins = 0;
  int64_t steps = 0;
  tw::train::StepReport last_step;
  std::vector<tw::train::EpochReport> epochs;
  std::vector<tw::train::Summary> ends;
};

TEST(Fit, LearnsAndReports) {
  const auto model = make_mlp();
  torch::optim::Adam adam(model.module->parameters(), 3e-3);
  Recorder recorder;
  const auto summary = tw::train::fit(world(), model, adam, rows(301), rows(100), {.epochs = 8, .batch_size = 20, .seed = 1}, {&recorder});
  EXPECT_GE(summary.test_accuracy, 0.95);
  EXPECT_EQ(summary.ranks, world().size());
  EXPECT_EQ(summary.parameters, 784 * 32 + 32 + 320 + 10);
  EXPECT_GT(summary.samples_per_s, 0);
  EXPECT_GT(summary.exposed_comm_share, 0);
  EXPECT_LT(summary.exposed_comm_share, 1);
  const int64_t steps_per_epoch = (301 + 20 * world().size() - 1) / (20 * world().size());
  EXPECT_EQ(summary.steps, 8 * steps_per_epoch);
  if (world().rank() != 0) {
    EXPECT_EQ(recorder.steps, 0);
    return;
  }
  EXPECT_EQ(recorder.begins, 8 * 301);
  EXPECT_EQ(recorder.steps, summary.steps);
  EXPECT_EQ(recorder.last_step.samples, 301);
  ASSERT_EQ(recorder.epochs.size(), 8U);
  EXPECT_LT(recorder.epochs.back().train_loss, recorder.epochs.front().train_loss);
  ASSERT_EQ(recorder.ends.size(), 1U);
}

TEST(Fit, EvaluatesExactlyOverUnevenRanks) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.module->parameters(), 0.1);
  const auto train_set = rows(50);
  const auto test_set = rows(37);
  const auto summary = tw::train::fit(world(), model, sgd, train_set, test_set, {.epochs = 1, .batch_size = 7}, {});
  std::vector<int64_t> all(37);
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto batch = test_set.batch(all);
  const torch::NoGradGuard no_grad;
  const auto logits = model.forward(batch.inputs);
  EXPECT_DOUBLE_EQ(summary.test_accuracy, logits.argmax(1).eq(batch.targets).sum().item<double>() / 37);
  EXPECT_NEAR(summary.test_loss, torch::cross_entropy_loss(logits, batch.targets).item<double>(), 1e-5);  // float sums of 37 terms of about 2
}

TEST(Fit, WorksWithMoreRanksThanSamples) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.module->parameters(), 0.1);
  const auto summary = tw::train::fit(world(), model, sgd, rows(1), rows(1), {.epochs = 2, .batch_size = 4}, {});
  EXPECT_EQ(summary.steps, 2);
  for (const auto& parameter : model.module->parameters()) EXPECT_TRUE(torch::isfinite(parameter).all().item<bool>());
}

TEST(Fit, NamesTheWrongOption) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.module->parameters(), 0.1);
  EXPECT_THROW(tw::train::fit(world(), model, sgd, rows(5), rows(5), {.batch_size = 0}, {}), tw::ContractError);
  EXPECT_THROW(tw::train::fit(world(), model, sgd, rows(0), rows(5), {}, {}), tw::ContractError);
}

}  // namespace
