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

}  // namespace trainer_user_test
