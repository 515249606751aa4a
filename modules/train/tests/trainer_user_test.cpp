// SPDX-License-Identifier: Apache-2.0
// What users of a Trainer do by habit: as in one process, or an error.
#include <filesystem>

#include "message_of.hpp"
#include "regression_run.hpp"

namespace trainer_user_test {

using namespace tw::testing;
using tw::train::State;
using tw::train::Summary;

struct Rates : tw::train::Hook {
  void on_update(State& state) override { seen.push_back(state.learning_rate); }
  void on_end_epoch(State& state, const tw::train::EpochReport& /*report*/) override {
    for (auto& group : state.optimizer.param_groups()) group.options().set_lr(group.options().get_lr() * 0.1);
  }
  std::vector<double> seen;
};

/// Trains a regressor. @param change called with the Trainer before it runs
template <class Change>
Summary trained(const tw::train::Options& options, torch::optim::Optimizer& optimizer, const tw::train::Model& model, const Change& change,
                int64_t samples = 31) {
  const auto data = squares(samples);
  tw::train::Trainer trainer(tw::Mesh(world(), {{"data"}}), model, optimizer, tw::train::regression(), data, data, options, &data);
  change(trainer);
  return trainer.run();
}

TEST(TrainerUser, SetsLearningRatesInHooks) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Rates rates;
  (void)trained(three_epochs("rates"), sgd, model, [&](auto& trainer) { trainer.add(rates); });
  ASSERT_EQ(rates.seen.size(), 18U);
  EXPECT_DOUBLE_EQ(rates.seen[0], 0.1);
  EXPECT_DOUBLE_EQ(rates.seen[6], 0.01);
  EXPECT_DOUBLE_EQ(rates.seen[17], 0.001);
}

TEST(TrainerUser, TrainsTwiceWithOneOptimizer) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  tw::train::Options options = three_epochs("twice");
  options.schedule.decay = tw::train::LearningRateOptions::Decay::cosine;
  for (int i = 0; i < 2; ++i) {
    (void)trained(options, sgd, model, [](auto&) {});
    EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options().get_lr(), 0.1);
  }
}

struct Grows : tw::train::Hook {
  void on_update(State& state) override {
    if (state.step == 1) state.optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones(1)}));
  }
};

TEST(TrainerUser, AddsNoParameterGroups) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Grows grows;
  const std::string error = message_of([&] { (void)trained(three_epochs("groups"), sgd, model, [&](auto& trainer) { trainer.add(grows); }); });
  EXPECT_NE(error.find("had 1 parameter groups when the Trainer was made, and has 2"), std::string::npos) << error;
}

struct Shrinks : tw::train::Hook {
  void on_sample(State& state) override { state.batch.inputs = state.batch.inputs.narrow(0, 0, 0); }
};

TEST(TrainerUser, KeepsTheRowsOfABatch) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Shrinks shrinks;
  const std::string error = message_of([&] { (void)trained(three_epochs("rows"), sgd, model, [&](auto& trainer) { trainer.add(shrinks); }); });
  EXPECT_NE(error.find("a hook has changed the number of a batch's samples"), std::string::npos) << error;
}

struct Norms : tw::train::Hook {
  explicit Norms(at::Tensor of) : parameter(std::move(of)) {}
  void on_backward(State& /*state*/) override { seen.push_back(parameter.grad().norm().item<double>()); }
  at::Tensor parameter;
  std::vector<double> seen;
};

// What the optimizer does not have gets a gradient all the same, which must not add up from update to update.
TEST(TrainerUser, TrainsAPartOfTheParameters) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd({model.tensors().back()}, 0.0);
  tw::train::Options options = three_epochs("part");
  options.global_batch = 31;
  options.accumulation = 1;
  Norms norms(model.tensors().front());
  (void)trained(options, sgd, model, [&](auto& trainer) { trainer.add(norms); });
  ASSERT_EQ(norms.seen.size(), 3U);
  EXPECT_NEAR(norms.seen[2], norms.seen[0], 1e-12 * norms.seen[0]);
}

// Some ranks have no samples in the last update.
TEST(TrainerUser, LeavesUnusedParametersAlone) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(4, 1), torch::nn::Linear(1, 1));
  net->to(torch::kDouble);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->ptr<torch::nn::LinearImpl>(0)->forward(x); });
  torch::optim::AdamW adam(model.tensors(), torch::optim::AdamWOptions(0.1).weight_decay(0.5));
  const at::Tensor unused = net->ptr<torch::nn::LinearImpl>(1)->weight;
  const at::Tensor before = unused.detach().clone();
  tw::train::Options options = quick("unused");
  options.epochs = 2;
  options.global_batch = 4;
  (void)trained(options, adam, model, [](auto&) {}, 5);
  EXPECT_TRUE(unused.equal(before));
}

TEST(TrainerUser, ChecksPointsWhereAnEpochEnds) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  tw::train::Options options = three_epochs("every_steps");
  options.checkpoint.every_steps = 6;  // of which an epoch has as many
  options.checkpoint.keep = 10;
  (void)trained(options, sgd, model, [](auto&) {});
  for (const char* step : {"step_00000006", "step_00000012"}) EXPECT_TRUE(std::filesystem::exists(options.folder() / "checkpoints" / step)) << step;
}

TEST(TrainerUser, KeepsFrozenIntegersOfReplicasThatMeetSeldom) {
  const auto model_with_table = [] {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(4, 1));
    net->to(torch::kDouble);
    net->register_parameter("table", torch::arange(3), /*requires_grad=*/false);
    return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  };
  const auto model = model_with_table();
  torch::optim::SGD sgd(model.tensors(), 0.01);
  tw::train::Options options = options_for("integers", {.meet = tw::train::Meeting::local_sgd, .period = 2});
  options.checkpoint.every_epochs = 1;
  EXPECT_NO_THROW((void)trained(options, sgd, model, [](auto&) {}));
}

// The period is longer than an epoch.
TEST(TrainerUser, KeepsWhatElasticAveragingHasNotExchanged) {
  const auto begin = copies(make_regressor(0.2));
  const auto options = options_for("elastic", {.meet = tw::train::Meeting::parameter_server, .period = 50});
  const Outcome outcome = run<torch::optim::SGD>(world(), options, torch::optim::SGDOptions(0.05));
  EXPECT_FALSE(bitwise_equal(outcome.parameters, begin));
}

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

Weighted weighted(const tw::Communicator& comm, int64_t accumulation, const tw::train::Objective& objective, int64_t global_batch = 6,
                  double max_norm = 0.3) {
  const auto [inputs, targets] = sequences();
  const tw::TensorDataset data{inputs, targets};
  torch::nn::Conv1d net = classifier();
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.5).momentum(0.9));
  tw::train::Options options = quick(tw::concat("weighted_", comm.size(), "_of_", comm.size() == 1 ? world().rank() : tw::Rank(0)));
  options.epochs = 2;
  options.global_batch = global_batch;
  options.accumulation = accumulation;
  options.clip.norm = max_norm;
  tw::train::Trainer trainer(tw::Mesh(comm, {{"data"}}), model, sgd, objective, data, data, options, &data);
  const Summary summary = trainer.run();
  return {copies(model), summary.test};
}

// As in one process that takes each update's samples at once, whatever the number of ranks and passes.
TEST(TrainerUser, WeighsPartsByTheTargetsThatCount) {
  const at::Tensor class_weights = torch::tensor({1.0, 2.0, 0.5}, torch::kDouble);
  const torch::nn::CrossEntropyLoss weighing(torch::nn::CrossEntropyLossOptions().weight(class_weights));
  for (const tw::train::Objective& objective : {tw::train::classification(-100), tw::train::objective_of(weighing)}) {
    const Weighted expected = weighted(world().split(world().rank(), 0), 1, objective);
    for (const int64_t accumulation : {1, 3}) {
      const Weighted ours = weighted(world(), accumulation, objective);
      for (size_t i = 0; i < expected.parameters.size(); ++i) {
        EXPECT_TRUE(ours.parameters[i].allclose(expected.parameters[i], 1e-10, 1e-12)) << accumulation << '\n'
                                                                                       << ours.parameters[i] << expected.parameters[i];
      }
      ASSERT_EQ(ours.test.size(), expected.test.size());
      for (size_t i = 0; i < ours.test.size(); ++i) EXPECT_NEAR(ours.test[i].second, expected.test[i].second, 1e-10) << ours.test[i].first;
    }
  }
}

// All samples in one update, so that their order does not matter.
TEST(TrainerUser, WeighsAsLibTorchDoes) {
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

TEST(TrainerUser, IgnoresNoTargetsUnasked) {
  const std::string error = message_of([] { (void)weighted(world().split(world().rank(), 0), 1, tw::train::classification()); });
  EXPECT_NE(error, "nothing thrown");
}

}  // namespace trainer_user_test
