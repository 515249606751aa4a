// SPDX-License-Identifier: Apache-2.0
// Losses and metrics of a Trainer whose mean counts targets, against one process and LibTorch's own loop.
#include <tw/data_parallel/sync_batch_norm.hpp>

#include "message_of.hpp"
#include "regression_run.hpp"

namespace weighted_loss_test {

using namespace tw::testing;
using tw::train::State;
using tw::train::Summary;

struct Weighted {
  std::vector<at::Tensor> parameters;
  tw::train::Figures test;
};

/// Sequences in which most targets of some samples do not count.
std::pair<at::Tensor, at::Tensor> sequences() {
  torch::manual_seed(9);
  const at::Tensor inputs = torch::randn({24, 4, 5}, torch::kDouble);
  at::Tensor targets = torch::randint(3, {24, 5});
  targets.masked_fill_(torch::rand({24, 5}) < torch::linspace(0, 0.9, 24).unsqueeze(1), -100);
  targets[3].fill_(-100);
  return {inputs, targets};
}

torch::nn::Conv1d classifier() {
  torch::manual_seed(3);
  torch::nn::Conv1d net(torch::nn::Conv1dOptions(4, 3, 1));
  net->to(torch::kDouble);
  return net;
}

/// @param net a Sequential; null: the classifier
Weighted weighted(const tw::Communicator& comm, int64_t accumulation, const tw::train::Objective& objective, int64_t global_batch = 6,
                  double max_norm = 0.3, const std::vector<tw::train::Hook*>& hooks = {}, std::shared_ptr<torch::nn::SequentialImpl> net = nullptr) {
  const auto [inputs, targets] = sequences();
  const tw::TensorDataset data{inputs, targets};
  if (net == nullptr) net = torch::nn::Sequential(classifier()).ptr();
  const auto model = tw::train::model_of(net, [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.5).momentum(0.9));
  tw::train::Options options = quick(tw::concat("weighted_", comm.size(), "_of_", comm.size() == 1 ? world().rank() : tw::Rank(0)));
  options.epochs = 2;
  options.global_batch = global_batch;
  options.accumulation = accumulation;
  options.clip.norm = max_norm;
  tw::train::Trainer trainer(tw::Mesh(comm, {{"data"}}), model, sgd, objective, data, data, options, &data);
  for (tw::train::Hook* hook : hooks) trainer.add(*hook);
  const Summary summary = trainer.run();
  return {copies(model), summary.test};
}

void expect_close(const Weighted& ours, const Weighted& expected) {
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    EXPECT_TRUE(ours.parameters[i].allclose(expected.parameters[i], 1e-10, 1e-12)) << ours.parameters[i] << expected.parameters[i];
  }
  ASSERT_EQ(ours.test.size(), expected.test.size());
  for (size_t i = 0; i < ours.test.size(); ++i) EXPECT_NEAR(ours.test[i].second, expected.test[i].second, 1e-10) << ours.test[i].first;
}

// As in one process that takes each update's samples at once, whatever the number of ranks and passes.
TEST(WeightedLoss, WeighsPartsByTheTargetsThatCount) {
  const at::Tensor class_weights = torch::tensor({1.0, 2.0, 0.5}, torch::kDouble);
  const torch::nn::CrossEntropyLoss weighing(torch::nn::CrossEntropyLossOptions().weight(class_weights));
  for (const tw::train::Objective& objective : {tw::train::classification(-100), tw::train::objective_of(weighing)}) {
    const Weighted expected = weighted(world().split(world().rank(), 0), 1, objective);
    for (const int64_t accumulation : {1, 3}) expect_close(weighted(world(), accumulation, objective), expected);
  }
}

// All samples in one update, so that their order does not matter.
TEST(WeightedLoss, WeighsAsLibTorchDoes) {
  const auto [inputs, targets] = sequences();
  torch::nn::Conv1d net = classifier();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  for (int update = 0; update < 2; ++update) {
    sgd.zero_grad();
    torch::cross_entropy_loss(net(inputs), targets).backward();
    sgd.step();
  }
  const Weighted ours = weighted(world(), 2, tw::train::classification(-100), 24, 0);
  for (size_t i = 0; i < ours.parameters.size(); ++i) EXPECT_TRUE(ours.parameters[i].allclose(net->parameters()[i], 1e-10, 1e-12));
  EXPECT_NEAR(ours.test[0].second, torch::cross_entropy_loss(net(inputs), targets).item<double>(), 1e-10);
  const double right = net(inputs).argmax(1).eq(targets).sum().item<double>() / targets.ne(-100).sum().item<double>();
  EXPECT_NEAR(ours.test[1].second, right, 1e-12);
}

TEST(WeightedLoss, IgnoresNoTargetsUnasked) {
  const std::string error = message_of([] { (void)weighted(world().split(world().rank(), 0), 1, tw::train::classification()); });
  EXPECT_NE(error.find("out of bounds"), std::string::npos) << error;
}

/// Masks one class.
struct Masks : tw::train::Hook {
  void on_sample(State& state) override { state.batch.targets.masked_fill_(state.batch.targets.eq(2), -100); }
};

TEST(WeightedLoss, MasksTargetsInHooks) {
  Masks masks;
  const Weighted expected = weighted(world().split(world().rank(), 0), 1, tw::train::classification(-100), 6, 0.3, {&masks});
  for (const int64_t accumulation : {1, 3}) {
    expect_close(weighted(world(), accumulation, tw::train::classification(-100), 6, 0.3, {&masks}), expected);
  }
}

// Passes whose targets are all ignored are rows for a batch norm.
TEST(WeightedLoss, NormalisesRowsThatDoNotCount) {
  const auto normalised = [](const tw::Communicator& comm) {
    torch::nn::Sequential net(classifier(), torch::nn::BatchNorm1d(3));
    net->to(torch::kDouble);
    tw::synchronize_batch_norms(*net, comm, tw::Reduction::sum);
    return weighted(comm, 1, tw::train::classification(-100), 3, 0.3, {}, net.ptr());
  };
  expect_close(normalised(world()), normalised(world().split(world().rank(), 0)));
}

struct FirstGradient : tw::train::Hook {
  void on_backward(State& state) override {
    if (!seen.defined()) seen = state.model.parameters[0].tensor.grad().clone();
  }
  at::Tensor seen;
};

// Not times the number of targets in a sample.
TEST(WeightedLoss, FindsTheGradientOfTheLossInHooks) {
  const auto [inputs, targets] = sequences();
  torch::nn::Conv1d net = classifier();
  torch::cross_entropy_loss(net(inputs), targets).backward();
  FirstGradient gradient;
  (void)weighted(world(), 2, tw::train::classification(-100), 24, 0, {&gradient});
  EXPECT_TRUE(gradient.seen.allclose(net->weight.grad(), 1e-10, 1e-12)) << gradient.seen << net->weight.grad();
}

// Where all samples weigh the same, replicas that meet seldom train as without weights.
TEST(WeightedLoss, WeighsReplicasThatMeetSeldom) {
  const auto parameters = [](const tw::train::Objective& objective) {
    const auto model = make_regressor(0);
    torch::optim::SGD sgd(model.tensors(), 0.1);
    const auto data = squares(31);
    const auto options = options_for("seldom", {.meet = tw::train::Meeting::local_sgd, .period = 2});
    tw::train::Trainer(tw::Mesh(world(), {{"data"}}), model, sgd, objective, data, data, options).run();
    return copies(model);
  };
  const tw::train::Objective plain = tw::train::regression();
  const auto expected = parameters(plain);
  const auto ours = parameters(tw::train::Objective{.loss = plain.loss, .weight = [](const at::Tensor& t) { return 3.0 * t.numel(); }});
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(ours[i].allclose(expected[i], 1e-10, 1e-12)) << i;
  // Each replica weighs its own targets; over all of them, a replica of light targets would hardly move.
  const auto by_rank = [](const at::Tensor& t) { return static_cast<double>(t.numel()) * (world().rank() == 0 ? 1e-6 : 1); };
  const auto apart = parameters(tw::train::Objective{.loss = plain.loss, .weight = by_rank});
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(apart[i].allclose(expected[i], 1e-10, 1e-12)) << i;
}

// A rank without rows passes over the set's first samples, which have no effect, whether their targets count or not.
TEST(WeightedLoss, PassesWithoutRowsOverSamplesThatDoNotCount) {
  torch::manual_seed(9);
  const at::Tensor inputs = torch::randn({10, 4, 5}, torch::kDouble);
  at::Tensor targets = torch::randint(3, {10, 5});
  targets.slice(0, 1, 2).fill_(-100);
  const tw::TensorDataset data{inputs, targets};
  const auto counts = [](const at::Tensor& t) { return t.ne(-100).to(torch::kDouble); };
  const auto masked_mean = [&](const at::Tensor& y, const at::Tensor& t) { return (y.square().sum(1) * counts(t)).sum() / counts(t).sum(); };
  const tw::train::Objective objective{.loss = masked_mean, .weight = [&](const at::Tensor& t) { return counts(t).sum().item<double>(); }};
  for (const tw::train::ReplicaOptions& replicas : {tw::train::ReplicaOptions{}, {.meet = tw::train::Meeting::local_sgd, .period = 2}}) {
    torch::manual_seed(3);
    torch::nn::Sequential net(classifier(), torch::nn::BatchNorm1d(3));
    net->to(torch::kDouble);
    tw::synchronize_batch_norms(*net, world(), tw::Reduction::sum);
    const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
    torch::optim::SGD sgd(model.tensors(), 0.1);
    auto options = options_for("masked_first", replicas);
    options.global_batch = 9;  // and an update of one sample
    options.accumulation = 1;
    EXPECT_TRUE(tw::train::Trainer(tw::Mesh(world(), {{"data"}}), model, sgd, objective, data, data, options).run().finished);
    for (const at::Tensor& each : model.tensors()) EXPECT_TRUE(each.isfinite().all().item<bool>());
  }
}

TW_TEST_ON(WeightedLoss, WeighsOnAllRanksOrNone, {.least = 2}) {
  tw::train::Objective objective = tw::train::regression();
  if (world().rank() == 0) objective.weight = [](const at::Tensor& t) { return static_cast<double>(t.numel()); };
  const std::string error = message_of([&] { (void)weighted(world(), 1, objective); });
  EXPECT_NE(error.find("the loss is divided by"), std::string::npos) << error;
}

TEST(WeightedLoss, CountsNoIgnoredTargetAsRight) {
  const auto objective = tw::train::classification(0);
  const at::Tensor outputs = torch::tensor({{2.0, 1.0}, {2.0, 1.0}, {1.0, 2.0}});
  const at::Tensor targets = torch::tensor({0, 0, 1});
  EXPECT_EQ(objective.metrics[0].sum(outputs, targets), 1);
  EXPECT_EQ(objective.metrics[0].weight(targets), 1);
}

}  // namespace weighted_loss_test
